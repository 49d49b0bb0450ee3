"""The DAG `characterise_cluster` with real task runs, a real lake and a real MLflow store."""

import json
from pathlib import Path
from typing import Any

import pytest

from cluster_logs.lake import Lake
from lucid_models.registry import Registry
from parts.characterisation.part import EXPERIMENT
from tests.dags.run_facts import silent_tasks, state_of_each
from tests.dags.test_dag_policies import conditions, met
from tests.fixtures import ReleaseShop, small_jobs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("metadata_database")]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shop: ReleaseShop) -> Path:
    monkeypatch.setenv("LUCID_LAKE_URI", str(tmp_path / "lake"))
    monkeypatch.setenv("LUCID_TRACKING_URI", shop.uri)
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("LUCID_TIME_ZONE", "Asia/Shanghai")
    return tmp_path / "state"


def test_an_empty_lake_is_nothing_to_characterise(dag_bag: Any, state: Path) -> None:
    run = dag_bag.dags["characterise_cluster"].test()
    assert silent_tasks(run) == set()
    assert state_of_each(run) == {"characterise_cluster": "skipped", "request_rest": "skipped"}


def test_a_cluster_gets_a_page_an_index_and_a_run(dag_bag: Any, state: Path, shop: ReleaseShop) -> None:
    Lake(str(state.parent / "lake")).write_jobs("small", small_jobs())
    before = len(Registry(shop.uri).find_runs(EXPERIMENT, {"cluster": "small"}))
    run = dag_bag.dags["characterise_cluster"].test()
    assert state_of_each(run) == {"characterise_cluster": "success", "request_rest": "skipped"}
    pages = list((state / "characterisation" / "small").glob("*/index.html"))
    assert len(pages) == 1
    document = json.loads(pages[0].with_name("report.json").read_text())
    assert document["window"]["time_zone"] == "Asia/Shanghai"
    assert (
        f"small/{pages[0].parent.name}/index.html" in (state / "characterisation" / "index.html").read_text()
    )
    runs = Registry(shop.uri).find_runs(EXPERIMENT, {"cluster": "small"})
    assert len(runs) == before + 1
    assert runs[0].metrics["sizes.mean_gpus"] == pytest.approx(document["numbers"]["sizes.mean_gpus"])
    again = dag_bag.dags["characterise_cluster"].test()
    assert str(again.state) == "success"
    assert len(list((state / "characterisation" / "small").iterdir())) == 1


def test_it_waits_for_a_job_table_and_nothing_waits_for_it(dag_bag: Any) -> None:
    assert met(conditions(dag_bag)["characterise_cluster"], {"job_table"})
    assert not [asset for task in dag_bag.dags["characterise_cluster"].tasks for asset in task.outlets]
