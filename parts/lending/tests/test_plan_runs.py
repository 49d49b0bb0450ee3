"""The DAG `plan_capacity` with servers on loan."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from tests.dags.run_facts import note_of, states_of
from tests.dags.test_plan_capacity_runs import state as state
from tests.fixtures import small_jobs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("metadata_database")]


def test_the_form_asks_what_loans_save_where_the_lake_has_an_inference_load(
    dag_bag: Any, state: Path, tmp_path: Path
) -> None:
    begin = small_jobs(60)["submit_time"].min().floor("5min")
    times = pd.date_range(begin, periods=500, freq="5min")
    load = {"time": times, "usage": 0.3, "servers": 5, "gap": False, "origin": "synthetic"}
    Lake(str(tmp_path / "lake")).write_series("inference_load", "tiny", pd.DataFrame(load))
    asked = {"limit_s": 300, "points": 2, "policy": "fifo", "headroom": 0.2, "by_virtual_cluster": False}
    run = dag_bag.dags["plan_capacity"].test(run_conf=asked)
    assert states_of(run) == {"plan_capacity": {"success"}}, note_of(run)
    (page,) = (state / "plans" / "tiny").glob("*/index.html")
    document = json.loads(page.with_name("plan.json").read_text())
    savings = [each for each in document["questions"] if each["kind"] == "loans"]
    assert 0 < savings[0]["servers_on_loan_mean"] <= 2  # of 5, 2 in use and 1 kept back
    assert "--loaning on" in savings[0]["command"]
    assert "headroom=0.2" in savings[0]["command"]
