"""The DAG `plan_capacity` with real task runs, a real lake and a real MLflow store."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from lucid_models.registry import Registry
from pipeline.planning.report import EXPERIMENT
from tests.dags.run_facts import note_of, silent_tasks, states_of
from tests.fixtures import ReleaseShop, small_jobs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("metadata_database")]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shop: ReleaseShop) -> Path:
    lake = Lake(str(tmp_path / "lake"))
    lake.write_jobs("tiny", small_jobs(60))
    nodes = {"virtual_cluster": ["vc"], "nodes": [3], "gpus_per_node": [8], "date": [None]}
    lake.write_nodes("tiny", pd.DataFrame(nodes))
    monkeypatch.setenv("LUCID_LAKE_URI", str(tmp_path / "lake"))
    monkeypatch.setenv("LUCID_TRACKING_URI", shop.uri)
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def test_a_form_gets_answers_a_page_an_index_and_a_run(dag_bag: Any, state: Path, shop: ReleaseShop) -> None:
    asked = {"limit_s": 300, "points": 2, "policy": "fifo"}
    run = dag_bag.dags["plan_capacity"].test(run_conf=asked)
    assert silent_tasks(run) == set()
    assert states_of(run) == {"plan_capacity": {"success"}}, note_of(run)
    (page,) = (state / "plans" / "tiny").glob("*/index.html")
    document = json.loads(page.with_name("plan.json").read_text())
    assert document["questions"][0]["p95_wait_s"] <= 300
    assert {row["variant"] for row in document["rows"]} == {"awake"}
    assert f"tiny/{page.parent.name}/index.html" in (state / "plans" / "index.html").read_text()
    assert document["questions"][0]["answer"] in note_of(run)
    (kept, *_) = Registry(shop.uri).find_runs(EXPERIMENT, {"cluster": "tiny"})
    assert kept.metrics["nodes.awake"] == document["questions"][0]["nodes"]


def test_a_field_that_cannot_be_used_fails_the_task_at_once(dag_bag: Any, state: Path) -> None:
    run = dag_bag.dags["plan_capacity"].test(run_conf={"policy": "fifo", "settings": {"speed": 3}})
    assert states_of(run) == {"plan_capacity": {"failed"}}
    assert "speed" in note_of(run)
