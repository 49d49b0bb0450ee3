"""A run's note and name say which cluster it is about before anything came of it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from lucid_airflow.listener import on_dag_run_failed, on_dag_run_running
from lucid_airflow.operators.rest import rest_run_id

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


def run_of(session: Any, run_id: str, conf: dict[str, Any], *clusters: str) -> Any:
    """A run in Airflow's database that events of these clusters' tables started."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.models.dagrun import DagRun

    run = DagRun("validate_release", run_id, run_type="manual", conf=conf, run_after=BEGUN, state="running")
    asset = AssetModel(name=run_id, uri=f"lucid://test/{run_id}")
    session.add_all([run, asset])
    session.flush()
    events = [AssetEvent(asset_id=asset.id, extra={"cluster": cluster}) for cluster in clusters]
    run.consumed_asset_events.extend(events)
    session.flush()
    return run


@pytest.mark.parametrize(
    ("conf", "events", "note"),
    [
        ({"cluster": "small"}, (), "Cluster small."),
        ({}, ("philly", "small"), "Cluster philly."),
        ({"announced": [{"cluster": "venus"}, {"cluster": "small"}]}, (), "Cluster venus."),
        ({"announced": 7}, (), None),
        ({}, (), None),
    ],
)
def test_a_run_that_begins_is_noted_with_its_cluster(
    metadata_database: None, conf: dict[str, Any], events: tuple[str, ...], note: str | None
) -> None:
    from airflow.utils.session import create_session

    with create_session() as session:
        run = run_of(session, f"run-of-{len(str(conf))}-{'-'.join(events)}", conf, *events)
        on_dag_run_running(run)
        assert run.note == note
        on_dag_run_failed(run)  # and no task told why
        assert run.note == note
        session.rollback()


def test_what_a_person_wrote_stays(metadata_database: None) -> None:
    from airflow.utils.session import create_session

    with create_session() as session:
        run = run_of(session, "noted", {"cluster": "small"})
        run.note = ("mine", "ann")
        on_dag_run_running(run)
        on_dag_run_failed(run)
        assert run.note == "mine"
        session.rollback()


def test_the_run_for_what_is_left_is_named_by_its_cluster_and_by_where_it_came_from() -> None:
    rest = [{"cluster": "small"}, {"cluster": "third"}]
    first = rest_run_id("scheduled__2026-01-01", rest)
    assert first == "small__2__rest__scheduled__2026-01-01"
    assert rest_run_id(first, rest[1:]) == "third__1__rest__scheduled__2026-01-01"
    assert rest_run_id("one", [{"cluster": "../other"}]) == "unnamed__1__rest__one"
    assert rest_run_id("one", [{"cluster": "a..b"}]) == "a.b__1__rest__one"
    assert rest_run_id("one", [{}]) == "unnamed__1__rest__one"
