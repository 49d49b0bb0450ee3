"""The DAG `plan_capacity` with sleeping nodes."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.dags.run_facts import note_of, silent_tasks, states_of
from tests.dags.test_plan_capacity_runs import state as state

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("metadata_database")]


def test_the_form_tries_sleeping_nodes(dag_bag: Any, state: Path) -> None:
    asked = {"limit_s": 300, "node_sleep": {"buffer_nodes": [0, 2]}, "points": 2, "policy": "fifo"}
    run = dag_bag.dags["plan_capacity"].test(run_conf=asked)
    assert silent_tasks(run) == set()
    assert states_of(run) == {"plan_capacity": {"success"}}, note_of(run)
    (page,) = (state / "plans" / "tiny").glob("*/index.html")
    document = json.loads(page.with_name("plan.json").read_text())
    assert document["questions"][0]["p95_wait_s"] <= 300
    assert {row["variant"] for row in document["rows"]} == {
        "awake",
        "sleep buffer_nodes=0",
        "sleep buffer_nodes=2",
    }
