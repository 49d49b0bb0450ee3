"""What a retraining is told by the form and by the events that started it."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from foundation.site import Site
from lucid_airflow.assets import JOB_TABLE, PROFILE_MEASUREMENTS, RETRAINING_REQUEST
from lucid_airflow.operators.step import StepOperator
from pipeline.training import training_plan
from pipeline.training.training_plan import TrainingPlan
from pipeline.validation import held_out_days

UNTIL = datetime(2020, 4, 10, tzinfo=UTC)
MEASURED = {"cluster": "c", "lake_uri": "lake", "models": ["packing"], "hold_out_days": None, "as_of": None}
INGESTED = {"cluster": "c", "lake_uri": "lake", "hold_out_days": 7, "as_of": "2020-04-20"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the plan was asked for."""
    seen: dict[str, Any] = {}

    def plan(site: Site, **values: Any) -> TrainingPlan:
        seen.update(values, cluster=site.cluster)
        return TrainingPlan(("packing",), {"throughput": 2, "duration": 3}, 5, UNTIL, ())

    monkeypatch.setattr(training_plan, "plan_training", plan)
    monkeypatch.setenv("LUCID_LAKE_URI", "lake")
    monkeypatch.setenv("LUCID_TRACKING_URI", "http://127.0.0.1:1")
    return seen


def run(
    events: dict[Any, list[dict[str, Any]]], *, handed_on: list[dict[str, Any]] | None = None, **form: Any
) -> dict[str, Any]:
    """Run the operator; the events came in the order of the mapping. Returns its XComs."""
    clock = datetime(2020, 4, 20, tzinfo=UTC)
    found: dict[Any, list[Any]] = {}
    for asset, extras in events.items():
        for extra in extras:
            clock += timedelta(minutes=1)
            found.setdefault(asset, []).append(SimpleNamespace(extra=extra, timestamp=clock))
    operator = StepOperator(
        task_id="resolve_inputs", step="pipeline.steps.training:resolve_training", arguments=form
    )
    pushed: dict[str, Any] = {}
    context = {
        "triggering_asset_events": found,
        "dag_run": SimpleNamespace(run_type="asset_triggered", conf={"announced": handed_on or []}),
        "ti": SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value})),
    }
    return {**operator.run(context), **pushed}


def test_measurements_alone_ask_for_the_packing_model(asked: dict[str, Any]) -> None:
    result = run({PROFILE_MEASUREMENTS: [MEASURED]})
    assert asked["models"] == ["packing"]
    assert asked["hold_out_days"] is None
    assert result["models"] == ["packing"]
    assert result["kept"] == {"throughput": 2, "duration": 3}
    assert (result["hold_out_days"], result["training_until"]) == (5, UNTIL.isoformat())


@pytest.mark.parametrize("other", [JOB_TABLE, RETRAINING_REQUEST])
def test_with_any_other_event_all_are_trained_and_its_window_counts(
    asked: dict[str, Any], other: Any
) -> None:
    run({other: [INGESTED], PROFILE_MEASUREMENTS: [MEASURED]})
    assert asked["models"] is None
    assert asked["hold_out_days"] == 7
    assert asked["as_of"] == datetime(2020, 4, 20, tzinfo=UTC)


def test_the_form_counts_before_the_events(asked: dict[str, Any]) -> None:
    run({PROFILE_MEASUREMENTS: [MEASURED]}, models=["duration"], hold_out_days=3)
    assert (asked["models"], asked["hold_out_days"]) == (["duration"], 3)


def test_of_several_clusters_the_first_is_served_and_the_rest_is_left(asked: dict[str, Any]) -> None:
    other = {**INGESTED, "cluster": "other"}
    left = run({PROFILE_MEASUREMENTS: [MEASURED], JOB_TABLE: [other, {**other, "hold_out_days": 2}]})["rest"]
    assert (asked["cluster"], asked["models"], asked["hold_out_days"]) == ("c", ["packing"], None)
    assert left == [other, {**other, "hold_out_days": 2}]
    assert run({}, handed_on=left)["rest"] == []
    assert (asked["cluster"], asked["models"], asked["hold_out_days"]) == ("other", None, 2)


def test_a_run_by_hand_trains_all_with_the_days_of_the_present_release(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_out_days, "usual_held_out", lambda *asked: 6)
    run({}, cluster="c", lake_uri="lake")
    assert (asked["models"], asked["hold_out_days"]) == (None, 6)
