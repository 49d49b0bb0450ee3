"""The DAG `forecast_inference_load` with real task runs, a real lake, training and a real MLflow store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from lucid_models.registry import Registry
from parts.lending.steps.forecast_hours import EXPERIMENT
from parts.lending.tests.steps.inference_days import inference_days
from tests.dags.run_facts import conf_of_rest, note_of, silent_tasks, states_of
from tests.fixtures import ReleaseShop

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("metadata_database")]

MODEL = "lucid-inference-load-small"
ALL_WELL = {
    "resolve_inputs": {"success"},
    "train_inference_load": {"success"},
    "forecast_load": {"success"},
    "request_rest": {"skipped"},
}


@pytest.fixture
def loaded_lake(small_lake: Path, shop: ReleaseShop) -> Iterator[Path]:
    """The small cluster's lake with the load of its inference servers; later tests see no forecast of it."""
    from mlflow import MlflowClient

    # Less than two days before the held-out one: a model without shape functions, trained in no time.
    start = pd.Timestamp("2020-04-09", tz="UTC")
    Lake(str(small_lake)).write_series("inference_load", "small", inference_days(2.5, start=start))
    yield small_lake
    if Registry(shop.uri).versions(MODEL):
        MlflowClient(shop.uri).delete_registered_model(MODEL)


AS_IT_OPENS = {"cluster": None, "hold_out_days": None, "hours": 3, "train_anew": False}


def run_dag(dag_bag: Any, **form: Any) -> Any:
    """A run by hand; what earlier runs of this process had in the form does not count."""
    return dag_bag.dags["forecast_inference_load"].test(run_conf={**AS_IT_OPENS, **form})


def test_the_first_run_trains_and_says_how_many_servers_could_be_lent(
    dag_bag: Any, loaded_lake: Path, shop: ReleaseShop
) -> None:
    run = run_dag(dag_bag, cluster="small", hold_out_days=1, hours=2)
    assert states_of(run) == ALL_WELL
    assert silent_tasks(run) == set()
    note = note_of(run)
    assert "of 40 inference servers of small could be lent" in note
    assert "by the default headroom" in note
    registry = Registry(shop.uri)
    (version,) = registry.versions(MODEL)
    assert version.tags["training_until"].startswith("2020-04-10")  # nothing of the held-out day
    newest = registry.find_runs(EXPERIMENT, {"cluster": "small"})[0]
    assert 0 < newest.metrics["lendable_all_the_time"] <= 40
    # The newest forecast could not have learned more: it is kept.
    again = run_dag(dag_bag, cluster="small", hold_out_days=1, hours=2)
    assert states_of(again) == {**ALL_WELL, "train_inference_load": {"skipped"}}
    assert [each.version for each in registry.versions(MODEL)] == [1]
    anew = run_dag(dag_bag, cluster="small", hold_out_days=1, hours=2, train_anew=True)
    assert states_of(anew) == ALL_WELL


def test_a_run_by_hand_is_about_every_cluster_with_load_one_after_another(
    dag_bag: Any, loaded_lake: Path
) -> None:
    Lake(str(loaded_lake)).write_series("inference_load", "alone", inference_days(1.5))
    run = run_dag(dag_bag)
    assert states_of(run)["forecast_load"] == {"success"}
    assert "servers of alone could be lent" in note_of(run)  # it has no jobs: no day is held out
    assert (conf_of_rest(run) or {})["announced"] == [{"cluster": "small"}]


def test_a_lake_without_load_is_nothing_to_forecast(dag_bag: Any, small_lake: Path) -> None:
    run = run_dag(dag_bag)
    assert states_of(run)["resolve_inputs"] == {"skipped"}
    assert states_of(run)["forecast_load"] == {"skipped"}
