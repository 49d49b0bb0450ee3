"""The DAG `monitor_live` with real task runs, a real lake and a real MLflow store."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from foundation.site import Site
from lucid_models.releases.lifecycle import build_release, publish_release
from pipeline.validation.held_out_days import record_held_out
from tests.dags.run_facts import silent_tasks, state_of_each
from tests.fixtures import ReleaseShop, forget_monitoring, small_jobs

pytestmark = pytest.mark.usefixtures("metadata_database")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shop: ReleaseShop) -> Path:
    """Twenty days of the small cluster; all its users are new in the last ten."""
    later = small_jobs(600, seed=5)
    for column in ("submit_time", "start_time", "end_time"):
        later[column] += pd.Timedelta(days=10)
    later = later.assign(user="new-" + later["user"], job_id="later-" + later["job_id"])
    Lake(str(tmp_path / "lake")).write_jobs("small", pd.concat([small_jobs(), later], ignore_index=True))
    forget_monitoring(shop.uri)
    monkeypatch.setenv("LUCID_LAKE_URI", str(tmp_path / "lake"))
    monkeypatch.setenv("LUCID_TRACKING_URI", shop.uri)
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    return tmp_path


def events(name: str) -> list[dict[str, Any]]:
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = session.scalars(
            select(AssetEvent)
            .join(AssetModel, AssetModel.id == AssetEvent.asset_id)
            .where(AssetModel.name == name)
            .order_by(AssetEvent.id)
        )
        return [dict(event.extra) for event in found]


def test_without_a_champion_there_is_nothing_to_watch(dag_bag: Any, lake: Path) -> None:
    run = dag_bag.dags["monitor_live"].test()
    assert silent_tasks(run) == set()
    assert state_of_each(run) == {
        "monitor_release": "skipped",
        "request_retraining": "skipped",
        "request_rest": "skipped",
    }
    assert str(run.state) == "success"


def test_a_changed_cluster_requests_one_retraining(dag_bag: Any, lake: Path, shop: ReleaseShop) -> None:
    publish_release(tracking_uri=shop.uri, cluster="small", version=shop.approved(1))
    before = len(events("retraining_request"))
    dag = dag_bag.dags["monitor_live"]
    quiet = dag.test(run_conf={"settings": {"unknown_share": 1, "psi_major": 90, "error_factor": 50}})
    assert state_of_each(quiet) == {
        "monitor_release": "success",
        "request_retraining": "skipped",
        "request_rest": "skipped",
    }
    run = dag.test(run_conf={"settings": {}})
    assert state_of_each(run) == {
        "monitor_release": "success",
        "request_retraining": "success",
        "request_rest": "skipped",
    }
    asked = events("retraining_request")[before:]
    assert len(asked) == 1
    assert asked[0]["cluster"] == "small"
    assert asked[0]["hold_out_days"] == 3
    assert asked[0]["lake_uri"] == str(lake / "lake")
    assert asked[0]["as_of"].startswith("2020-04-2")
    assert "New users: 100% of the jobs." in asked[0]["reason"]
    assert (lake / "state" / "monitoring" / "index.html").is_file()
    again = dag.test(run_conf={"settings": {}})
    assert state_of_each(again) == {
        "monitor_release": "success",
        "request_retraining": "skipped",
        "request_rest": "skipped",
    }
    assert len(events("retraining_request")) == before + 1


def test_what_was_requested_is_what_a_retraining_starts_from(lake: Path) -> None:
    """The event of a request is read like that of an ingest; the newest of both counts."""
    from types import SimpleNamespace

    from lucid_airflow.assets import JOB_TABLE, RETRAINING_REQUEST
    from lucid_airflow.operators.step import StepOperator

    def event(moment: int, **extra: Any) -> SimpleNamespace:
        return SimpleNamespace(timestamp=moment, extra=extra)

    context = {
        "triggering_asset_events": {
            JOB_TABLE: [event(1, cluster="small", lake_uri=str(lake / "lake"), hold_out_days=9)],
            RETRAINING_REQUEST: [
                event(2, cluster="small", lake_uri=str(lake / "lake"), hold_out_days=3, as_of="2020-04-20")
            ],
        },
        "dag_run": SimpleNamespace(run_type="asset_triggered"),
    }
    resolve = StepOperator(task_id="resolve_inputs", step="pipeline.steps.training:resolve_judged")
    inputs = resolve.run(context)
    assert inputs["hold_out_days"] == 3
    assert inputs["training_until"].startswith("2020-04-17")


def test_the_clock_retrains_every_cluster_that_has_a_release(lake: Path, shop: ReleaseShop) -> None:
    from types import SimpleNamespace

    from lucid_airflow.operators.step import StepOperator

    pushed: dict[str, Any] = {}
    context = {
        "triggering_asset_events": {},
        "dag_run": SimpleNamespace(run_type="scheduled", conf={}),
        "ti": SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value})),
    }
    table = Lake(str(lake / "lake"))
    table.write_jobs("other", table.read_jobs("small"))
    shop.lend_models("other", 1)
    for cluster in ("small", "other"):
        record_held_out(Site(registry=shop.uri), build_release(tracking_uri=shop.uri, cluster=cluster), 1)
    operator = StepOperator(task_id="resolve_inputs", step="pipeline.steps.training:resolve_training")
    assert operator.run(context)["cluster"] == "other"
    assert pushed["rest"] == [{"cluster": "small"}]
