"""Every DAG with the form as it opens: on an empty installation and on one with a cluster and its release."""

from pathlib import Path
from typing import Any

import pytest

from foundation.parts import installed_parts
from foundation.site import Site
from tests.dags.run_facts import conf_of_rest, note_of, result_of, silent_tasks, states_of
from tests.dags.test_forms import DAGS
from tests.fixtures import ReleaseShop

pytestmark = pytest.mark.usefixtures("metadata_database")

NO_JOBS, NO_RELEASE = "has no jobs of any cluster", "No cluster has a release"
NO_NAME = "No cluster is named"
NOTHING = "nothing to "  # it is skipped
# What an empty installation answers, and the form that mends it; None: it works without anything.
ON_NOTHING = {
    "apply_retention": None,
    "evaluate_policies": NO_JOBS,
    "forecast_inference_load": NOTHING,
    "ingest_logs": None,
    "monitor_live": NOTHING,
    "plan_capacity": NO_JOBS,
    "profile_workloads": NO_JOBS,
    "publish_release": NO_RELEASE,
    "remove_cluster": NO_NAME,
    "renew_publications": NOTHING,
    "retrain_models": NO_JOBS,
    "rollback_release": NO_RELEASE,
    "search_pareto_front": NO_JOBS,
    "tune_system": NO_JOBS,
    "validate_release": NO_RELEASE,
}
# Fields without which the form does not start a run at all, and says so.
REQUIRED = {
    "ingest_logs": {"cluster": "synthetic-venus", "source_format": "synthetic:helios-venus"},
    "rollback_release": {"reason": "a test"},
}


def run_form(dag_bag: Any, dag_id: str) -> Any:
    return dag_bag.dags[dag_id].test(run_conf=REQUIRED.get(dag_id, {}))


def test_every_dag_is_tried() -> None:
    of_parts = {dag.dag_id for part in installed_parts() for dag in part.dags}
    assert set(DAGS) - of_parts <= set(ON_NOTHING)


@pytest.mark.parametrize("dag_id", [dag_id for dag_id in DAGS if ON_NOTHING.get(dag_id) is not None])
def test_an_empty_installation_says_at_once_what_is_missing(
    dag_bag: Any, dag_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shop: ReleaseShop
) -> None:
    monkeypatch.setenv("LUCID_LAKE_URI", str(tmp_path / "lake"))
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("LUCID_TRACKING_URI", shop.uri)
    run = run_form(dag_bag, dag_id)
    first = dag_bag.dags[dag_id].roots[0].task_id
    skipped = ON_NOTHING[dag_id] is NOTHING
    assert states_of(run)[first] == ({"skipped"} if skipped else {"failed"})
    assert ON_NOTHING[dag_id] in note_of(run)
    assert "None" not in note_of(run)
    result = result_of(run, first)
    assert result["sentence"] == note_of(run)
    assert result["outcome"] == ("nothing" if skipped else "failed")
    mended_by = {NO_JOBS: ["ingest_logs"], NO_RELEASE: ["retrain_models"], NO_NAME: [dag_id]}.get(
        ON_NOTHING[dag_id], []
    )
    assert result["forms"] == mended_by


@pytest.mark.slow
def test_a_made_log_is_ingested_and_each_task_tells_what_it_did(
    dag_bag: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUCID_LAKE_URI", str(tmp_path / "lake"))
    monkeypatch.setenv("LUCID_TRACKING_URI", "http://127.0.0.1:1")
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    run = dag_bag.dags["ingest_logs"].test(run_conf={**REQUIRED["ingest_logs"], "days": 2})
    states = states_of(run)
    assert set().union(*states.values()) == {"success", "skipped"}, (states, note_of(run))
    assert silent_tasks(run) == set()
    assert " rows of synthetic-venus in = " in note_of(run)
    assert "Slurm" not in note_of(run), "what is not asked for is no result of the run"
    rows = result_of(run, "ingest_jobs")["bars"]["rows"]
    assert list(rows) == ["kept", "quarantined", "skipped"]
    assert rows["kept"] > 0
    assert result_of(run, "validate_jobs")["page"].startswith("lucid/data-docs/synthetic-venus/")


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch, shop: ReleaseShop) -> None:
    """Trainings that hand over the models of the shop: what they learn is tested elsewhere."""
    from lucid_models.releases.building import model_name
    from pipeline.training import model_training

    def train_model(site: Site, *, model: str, **asked: Any) -> dict[str, Any]:
        assert asked["training_until"].startswith("2020-04-10")
        name = model_name(model, None)
        return {"name": name, "version": 1, "digest": "", "metrics": {}, "baselines": {}, "remarks": []}

    monkeypatch.setattr(model_training, "train_model", train_model)


def test_forms_as_they_open_work_where_there_is_a_cluster(
    dag_bag: Any,
    small_lake: Path,
    shop: ReleaseShop,
    trained: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing names the cluster or its days: there is one, and its release was built with a day held out."""
    from lucid_models.registry import Registry
    from lucid_models.releases.lifecycle import build_release, show_release
    from pipeline.validation.held_out_days import record_held_out

    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    versions = dict.fromkeys(("packing", "throughput", "duration"), 1)
    built = build_release(tracking_uri=shop.uri, cluster="small", versions=versions, settings={"gss": 2})
    record_held_out(Site(registry=shop.uri), built, 1)

    for dag_id in ("retrain_models", "validate_release"):
        run = run_form(dag_bag, dag_id)
        states = states_of(run)
        assert set().union(*states.values()) <= {"success", "skipped"}, (dag_id, states, note_of(run))
        assert conf_of_rest(run) is None
        assert silent_tasks(run) == set()
        assert states[dag_bag.dags[dag_id].roots[0].task_id] == {"success"}
        if dag_id == "validate_release":
            assert "of small is" in note_of(run)
    challenger = show_release(tracking_uri=shop.uri, cluster="small", alias="challenger")
    tags = Registry(shop.uri).version(challenger.name, challenger.version).tags
    assert tags["log_end"].startswith("2020-04-11T12:00")


def test_two_clusters_in_one_run_are_both_served(dag_bag: Any, small_lake: Path, trained: None) -> None:
    """Two ingests end while no run is there yet: Airflow starts one for both."""
    told = [{"cluster": name, "hold_out_days": 1} for name in ("elsewhere", "small", "elsewhere", "third")]
    run = dag_bag.dags["retrain_models"].test(run_conf={"announced": told})
    assert states_of(run)["resolve_inputs"] == {"failed"}  # the lake has nothing of it
    assert "'elsewhere'" in note_of(run)
    assert states_of(run)["request_rest"] == {"success"}
    rest = conf_of_rest(run)
    assert rest == {"announced": [told[1], told[3]]}
    assert result_of(run, "request_rest")["sentence"] == "Handed on to the next run: small, third."
    run = dag_bag.dags["retrain_models"].test(run_conf=rest)
    assert states_of(run)["build_release"] == {"success"}
    assert conf_of_rest(run) == {"announced": [told[3]]}
