"""The DAG `retrain_models` trains a wait model where jobs wait; a release has it as the form, else as the
champion.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cluster_logs.lake import Lake
from foundation.site import Site
from lucid_models.registry import Registry
from lucid_models.releases.building import model_name
from lucid_models.releases.lifecycle import build_release, publish_release, record_verdict, show_release
from parts.waits.model import training
from parts.waits.model.job_queue import read_job_queue
from parts.waits.steps.wait_answers import pinned_waits
from parts.waits.tests.job_queues import make_queue_jobs
from parts.waits.tests.queue_logs import FAST_WAITS
from pipeline.training import model_training
from tests.dags.run_facts import note_of, silent_tasks, states_of
from tests.fixtures import ReleaseShop

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("metadata_database")]

MODEL = "lucid-waits-small"
FORM = {"cluster": "small", "models": ["waits"], "hold_out_days": 1}


@pytest.fixture(autouse=True)
def later_tests_see_no_wait_model(shop: ReleaseShop) -> Iterator[None]:
    from mlflow import MlflowClient

    yield
    if Registry(shop.uri).versions(MODEL):
        MlflowClient(shop.uri).delete_registered_model(MODEL)


@pytest.fixture(autouse=True)
def quick_trainings(monkeypatch: pytest.MonkeyPatch, shop: ReleaseShop) -> None:
    """Wait models learn in few rounds; the packing model is handed over as the shop has it."""
    train_model = model_training.train_model

    def train(site: Site, *, model: str, **asked: Any) -> dict[str, Any]:
        if model == "waits":
            return train_model(site, model=model, **asked)
        name = model_name(model, None)
        return {"name": name, "version": 1, "digest": "", "metrics": {}, "baselines": {}, "remarks": []}

    monkeypatch.setattr(model_training, "train_model", train)
    monkeypatch.setattr(training, "train_waits", partial(training.train_waits, settings=FAST_WAITS))


def make_jobs_wait(lake: Path) -> None:
    table = Lake(str(lake))
    (source,) = table.read_jobs("small")["source_file"].unique()
    table.write_jobs("small", make_queue_jobs(8).assign(source_file=source))


def test_a_release_that_answers_about_waits_gets_the_newest_model(
    dag_bag: Any, small_lake: Path, shop: ReleaseShop
) -> None:
    make_jobs_wait(small_lake)
    until = datetime(2020, 4, 20, tzinfo=UTC)
    log = read_job_queue(Site(lake=str(small_lake), cluster="small"), until, 28)
    training.train_waits(log=log, source="the lake", cluster="small", tracking_uri=shop.uri)
    common: dict[str, Any] = {"tracking_uri": shop.uri, "cluster": "small"}
    champion = build_release(**common, parts={"waits": pinned_waits({})})
    verdict: dict[str, Any] = {"approved": True, "sentence": "No loss was found.", "objective": {}}
    record_verdict(**common, version=champion.version, verdict=verdict)
    publish_release(**common, version=champion.version)

    run = dag_bag.dags["retrain_models"].test(run_conf=FORM)
    states = states_of(run)
    assert (states["train_waits"], states["train_duration"]) == ({"success"}, {"skipped"})
    assert states["build_release"] == {"success"}
    assert silent_tasks(run) == set()
    challenger = show_release(**common, alias="challenger")
    assert challenger.models["waits"]["version"] == 2
    assert challenger.parts.get("waits") == champion.parts.get("waits")
    assert "It carries a wait model, as the champion does." in note_of(run)

    form = {**FORM, "models": ["packing"], "wait_answers": "no"}
    run = dag_bag.dags["retrain_models"].test(run_conf=form)
    assert show_release(**common, alias="challenger").parts.get("waits") is None
    assert "It carries no wait model, as the form asked." in note_of(run)


def test_a_form_puts_a_wait_model_into_the_first_release_of_a_cluster(
    dag_bag: Any, small_lake: Path, shop: ReleaseShop
) -> None:
    make_jobs_wait(small_lake)
    form = {"cluster": "small", "models": ["packing"], "hold_out_days": 1}
    run = dag_bag.dags["retrain_models"].test(run_conf=form)
    assert states_of(run)["train_waits"] == {"skipped"}
    assert "It carries no wait model: the champion has none, and none was asked for." in note_of(run)

    asked = {**form, "wait_answers": "yes", "least_jobs": 700}
    run = dag_bag.dags["retrain_models"].test(run_conf=asked)
    assert states_of(run)["train_waits"] == {"success"}  # there was none to keep
    built = show_release(tracking_uri=shop.uri, cluster="small", alias="challenger")
    assert built.models["waits"]["version"] == 1
    assert built.parts["waits"] == {"least_jobs": 700, "recent_jobs": 700}
    assert "It carries a wait model, as the form asked." in note_of(run)


def test_where_hardly_a_job_waits_the_task_is_skipped(
    dag_bag: Any, small_lake: Path, shop: ReleaseShop
) -> None:
    run = dag_bag.dags["retrain_models"].test(run_conf={**FORM, "wait_answers": "yes"})
    states = states_of(run)
    assert "although the form asked for one. Hardly a job waited" in note_of(run)
    assert (states["train_waits"], states["build_release"]) == ({"skipped"}, {"success"})
    assert Registry(shop.uri).versions(MODEL) == []
