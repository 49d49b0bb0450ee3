"""The DAG `validate_release` with real task runs: which results publish_release hears of."""

from pathlib import Path
from typing import Any

import pytest

from cluster_logs.lake import Lake
from foundation.site import Site
from tests.dags.run_facts import silent_tasks
from tests.fixtures import small_jobs

pytestmark = pytest.mark.usefixtures("metadata_database")


@pytest.fixture
def validated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The settings of every validation, in place of replays; each one refuses."""
    from pipeline.steps import release
    from pipeline.validation import release_validation
    from simulator.gate.judge import refuse
    from simulator.gate.verdict import Constraint

    asked: list[Any] = []

    def validate_release(site: Site, *, settings: Any, version: int, **_: Any) -> Any:
        asked.append(settings)
        broken = Constraint("release_loads", "releases", 0.0, None, 1.0, False, "It is cut off.")
        verdict = refuse(broken, challenger="challenger", rules=settings.rules, subject={"release": version})
        if settings.stated:
            verdict = verdict.as_study({name: settings.rules.to_data()[name] for name in settings.stated})
        return release_validation.Validation(version, verdict, "experiments/1/runs/2")

    Lake(str(tmp_path)).write_jobs("small", small_jobs(60))
    monkeypatch.setenv("LUCID_LAKE_URI", str(tmp_path))
    monkeypatch.setenv("LUCID_TRACKING_URI", "http://127.0.0.1:1")
    monkeypatch.setattr(release_validation, "validate_release", validate_release)
    monkeypatch.setattr(release, "record_starters", lambda *release_and_people: None)
    return asked


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "announced", "margin_pct"), [({}, "success", 1.5), ({"margin_pct": 9}, "skipped", 9)]
)
def test_a_verdict_by_the_installations_rules_is_announced_and_a_what_if_is_not(
    dag_bag: Any,
    validated: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    rules: dict[str, float],
    announced: str,
    margin_pct: float,
) -> None:
    monkeypatch.setenv("LUCID_GATE_RULES", '{"margin_pct": 1.5}')
    form = {"cluster": "small", "version": 3, "hold_out_days": 2, "rules": rules}
    run = dag_bag.dags["validate_release"].test(run_conf=form)
    assert silent_tasks(run) == set()
    states = {task.task_id: str(task.state) for task in run.get_task_instances()}
    assert states == {
        "resolve_inputs": "success",
        "validate_release": "success",
        "announce_verdict": announced,
        "request_rest": "skipped",
    }
    (settings,) = validated
    assert settings.rules.margin_pct == margin_pct
    dag = dag_bag.dags["validate_release"]
    outlets = {task.task_id: [asset.name for asset in task.outlets] for task in dag.tasks if task.outlets}
    assert outlets == {"announce_verdict": ["release_verdict"]}


def test_the_form_shows_the_installations_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    from lucid_airflow import form_fields

    assert "the defaults" in form_fields.what_if_rules().description
    monkeypatch.setenv("LUCID_GATE_RULES", '{"margin_pct": 1.5}')
    assert '{"margin_pct": 1.5}' in form_fields.what_if_rules().description
