"""The DAG `tune_system` with real task runs, a real lake and a real MLflow store."""

from pathlib import Path
from typing import Any

import pytest

from foundation.errors import BadInputError
from foundation.site import Site
from tests.dags.run_facts import all_states_of, silent_tasks
from tests.fixtures import ReleaseShop

pytestmark = pytest.mark.usefixtures("metadata_database")

# Every small job is profiled for ten minutes, however idle the cluster.
SLOW_PROFILER = {"profiling_in_place": False, "profiling_scales": False, "profiling_limit_s": 600.0}


@pytest.fixture
def lake(small_lake: Path) -> Path:
    """Where the tasks look for ten days of a cluster of five virtual clusters."""
    return small_lake


def form(**values: Any) -> dict[str, Any]:
    return {
        "cluster": "small",
        "rounds": 1,
        "round_size": 3,
        "trials_per_task": 4,
        "hold_out_days": 1,
        "search_days": 4,
        "validation_days": 3,
        "blocks": 2,
        "search": {
            "profiling_limit_s": [60, 600],
            "profiling_max_gpus": [8],
            "profiling_nodes": [2],
            "borrowed_nodes_max": [4],
            "sharing": ["none"],
            "medium_from": [0.8, 0.85],
            "tiny_above": [0.95],
        },
        **values,
    }


def asked() -> dict[str, Any]:
    """What the form says of the study."""
    study = ("hold_out_days", "search_days", "validation_days", "blocks", "search")
    return {key: form()[key] for key in study}


def event_of(run: Any) -> dict[str, Any] | None:
    """What the newest event of the challenger's asset says, if this run announced one."""
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session

    with create_session() as session:
        event = (
            session.query(AssetEvent)
            .filter(AssetEvent.source_dag_id == "tune_system", AssetEvent.source_run_id == run.run_id)
            .first()
        )
        return None if event is None else dict(event.extra)


def test_better_settings_become_a_challenger_and_the_champion_stays(
    dag_bag: Any, lake: Path, shop: ReleaseShop
) -> None:
    from lucid_models.releases.lifecycle import load_release_models, publish_release, show_release
    from pipeline.release.release_settings import pinned_settings
    from pipeline.studies.tuning.proposal import read_proposal
    from pipeline.studies.tuning.study import TuningStudy

    base = shop.approved(1, settings=pinned_settings(SLOW_PROFILER))
    publish_release(tracking_uri=shop.uri, cluster="small", version=base)
    dag = dag_bag.dags["tune_system"]
    run = dag.test(run_conf=form())
    assert silent_tasks(run) == set()
    found = all_states_of(run)
    assert found["evaluate_round_0"] == ["success"]  # four trials, four a task
    assert found["evaluate_round_1"] == ["success"]
    skipped = {name for name, state in found.items() if state == ["skipped"]}
    assert skipped == {f"{verb}_round_{n}" for verb in ("ask", "evaluate") for n in range(2, 7)}
    assert {state for name, task in found.items() if name not in skipped for state in task} == {"success"}
    (folder,) = (lake / "tuning" / "cluster=small").iterdir()
    study = TuningStudy.load(str(folder))
    proposal = read_proposal(study)
    assert proposal.proposed, proposal.sentence
    assert proposal.values["profiling_limit_s"] == 60.0
    assert study.base_release == base

    champion = show_release(tracking_uri=shop.uri, cluster="small")
    assert champion.version == base
    assert champion.settings["profiling_limit_s"] == 600.0
    challenger = show_release(tracking_uri=shop.uri, cluster="small", alias="challenger")
    assert challenger.version != base
    assert challenger.verdict is None  # the gate's word is still to come
    assert challenger.settings["profiling_limit_s"] == 60.0
    changed = {name for name, value in challenger.settings.items() if value != champion.settings[name]}
    assert changed == {name for name in proposal.values if name not in ("medium_from", "tiny_above")}
    assert challenger.models["duration"] == champion.models["duration"]
    assert challenger.training["datasets"]["settings"] == study.sha256
    packing = load_release_models(
        tracking_uri=shop.uri, cluster="small", version=challenger.version
    ).packing.settings
    assert packing.medium_from == proposal.values.get("medium_from", 0.85)
    assert event_of(run) == {
        "cluster": "small",
        "lake_uri": str(lake),
        "hold_out_days": 1,
        "as_of": None,
        "version": challenger.version,
        "started_by": ["dag_test"],
    }

    from mlflow import MlflowClient

    client = MlflowClient(shop.uri)
    tags = client.get_model_version("lucid-release-small", str(challenger.version)).tags
    assert tags["tuned_by"] == study.sha256
    assert float(tags["tuned_after_s"]) < float(tags["tuned_before_s"])
    experiment = client.get_experiment_by_name("lucid-tuning")
    (logged,) = client.search_runs([experiment.experiment_id], f"tags.tuning_study = '{study.sha256}'")
    artifacts = {file.path for file in client.list_artifacts(logged.info.run_id)}
    assert {"study.json", "proposal.json", "sensitivity.csv", "tuning_trials.png"} <= artifacts

    before = {file: file.stat().st_mtime_ns for file in (folder / "trials").iterdir()}
    dag.test(run_conf=form())
    assert {file: file.stat().st_mtime_ns for file in (folder / "trials").iterdir()} == before
    assert (
        show_release(tracking_uri=shop.uri, cluster="small", alias="challenger").version == challenger.version
    )


def test_a_tuned_release_is_judged_on_days_that_tuned_nothing_and_new_thresholds_bring_their_packing_model(
    lake: Path, shop: ReleaseShop
) -> None:
    from dataclasses import replace

    from lucid_models.releases.lifecycle import load_release_models, publish_release, show_release
    from pipeline.release.release_settings import pinned_settings
    from pipeline.studies.tuning.challenger import build_challenger
    from pipeline.studies.tuning.plan import TuningSpec, current_release, plan_around
    from pipeline.studies.tuning.proposal import propose
    from pipeline.studies.tuning.study import run_study
    from pipeline.validation.held_out_days import HeldOutDays
    from pipeline.validation.release_validation import validate_release

    base = shop.approved(1, settings=pinned_settings(SLOW_PROFILER))
    assert (
        current_release(Site(registry=shop.uri, cluster="small")).release == base
    )  # nothing is published: the newest
    publish_release(tracking_uri=shop.uri, cluster="small", version=base)
    current = current_release(Site(registry=shop.uri, cluster="small"))
    where = Site(str(lake), shop.uri, "small")
    with pytest.raises(BadInputError, match="Hold out fewer days"):
        plan_around(where, current, spec=TuningSpec(**{**asked(), "hold_out_days": 2}))
    study = plan_around(where, current, spec=TuningSpec(**asked()))
    run_study(study, trials=0)
    proposal = propose(study)

    built = build_challenger(Site(registry=shop.uri), study, proposal)
    with pytest.raises(BadInputError, match="judged on what it has seen"):
        validate_release(where, held_out=HeldOutDays(2))
    verdict = validate_release(where, held_out=HeldOutDays(1)).verdict
    assert verdict.subject["release"] == built.version
    assert verdict.subject["champion_release"] == base
    assert verdict.subject["window_start"] == study.windows.until.isoformat(timespec="seconds")
    judged = show_release(tracking_uri=shop.uri, cluster="small", alias="challenger").verdict
    assert judged is not None
    assert judged["approved"] == verdict.approved
    assert show_release(tracking_uri=shop.uri, cluster="small").version == base

    proposal = replace(proposal, changes={**proposal.changes, "medium_from": {"from": 0.85, "to": 0.8}})
    built = build_challenger(Site(registry=shop.uri), study, proposal)
    assert build_challenger(Site(registry=shop.uri), study, proposal).version == built.version
    old = show_release(tracking_uri=shop.uri, cluster="small", version=base)
    assert built.models["packing"] != old.models["packing"]
    assert built.models["throughput"] == old.models["throughput"]
    model = load_release_models(tracking_uri=shop.uri, cluster="small", version=built.version).packing
    assert (model.settings.medium_from, model.settings.tiny_above) == (0.8, 0.95)
    assert model.settings == replace(current.packing, medium_from=0.8)


def test_settings_that_are_no_better_end_well_and_build_nothing(
    dag_bag: Any, lake: Path, shop: ReleaseShop
) -> None:
    from lucid_models.releases.lifecycle import list_releases
    from pipeline.release.release_settings import pinned_settings

    shop.approved(1, settings=pinned_settings())
    fixed = {name: values[:1] for name, values in form()["search"].items()} | {"profiling_limit_s": [200]}
    run = dag_bag.dags["tune_system"].test(
        run_conf=form(rounds=0, search={**fixed, "sharing": ["default"], "medium_from": [0.85]})
    )
    found = all_states_of(run)
    assert found["propose_settings"] == ["success"]
    assert found["build_release"] == ["skipped"]
    assert str(run.state) == "success"
    assert event_of(run) is None
    assert len(list_releases(tracking_uri=shop.uri)) == 1


def test_without_a_release_there_is_nothing_to_tune(dag_bag: Any, lake: Path) -> None:
    run = dag_bag.dags["tune_system"].test(run_conf=form())
    assert all_states_of(run)["plan_tuning"] == ["failed"]
    assert str(run.state) == "failed"
    assert not (lake / "tuning").exists()


def test_the_graph_has_a_task_for_each_round_and_one_way_through(dag_bag: Any) -> None:
    dag = dag_bag.dags["tune_system"]
    rounds = dag.params.get_param("rounds").schema["maximum"]
    for number in range(rounds + 1):
        ask, evaluate = dag.get_task(f"ask_round_{number}"), dag.get_task(f"evaluate_round_{number}")
        assert evaluate.task_id in ask.downstream_task_ids
        assert ask.arguments["round_number"] == number
    assert dag.get_task(f"evaluate_round_{rounds}").downstream_task_ids == {"propose_settings"}
    assert dag.get_task("propose_settings").downstream_task_ids == {"build_release"}
    assert [asset.name for asset in dag.get_task("build_release").outlets] == ["release_challenger"]
    assert not any(dag.get_task(name).outlets for name in dag.task_dict if name != "build_release")
