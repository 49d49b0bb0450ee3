"""The DAG `search_pareto_front` with real task runs, a real lake and a real MLflow store."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from tests.dags.conftest import dag_bag as dag_bag
from tests.dags.conftest import defaults as defaults
from tests.dags.conftest import metadata_database as metadata_database
from tests.dags.conftest import parsed_dags as parsed_dags
from tests.dags.run_facts import silent_tasks
from tests.fixtures import ReleaseShop, small_jobs

pytestmark = pytest.mark.usefixtures("metadata_database")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shop: ReleaseShop) -> Path:
    """Ten days of a cluster, where the tasks look for it, with a release that is live."""
    from lucid_models.releases.lifecycle import publish_release

    root = tmp_path / "lake"
    jobs = small_jobs(300)
    # The models of the shop learned until midnight of the 10th: the last day begins later than that.
    late = pd.Timestamp("2020-04-11T12:00", tz="UTC") - jobs["submit_time"].iloc[-1]
    for column in ("submit_time", "start_time", "end_time"):
        jobs.loc[jobs.index[-1], column] += late
    Lake(str(root)).write_jobs("small", jobs)
    nodes = pd.DataFrame({"virtual_cluster": ["vc"], "nodes": 2, "gpus_per_node": 8, "date": None})
    Lake(str(root)).write_nodes("small", nodes)
    monkeypatch.setenv("LUCID_LAKE_URI", str(root))
    monkeypatch.setenv("LUCID_TRACKING_URI", shop.uri)
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    publish_release(tracking_uri=shop.uri, cluster="small", version=shop.approved(1))
    return root


def form(**values: Any) -> dict[str, Any]:
    return {
        "cluster": "small",
        "preference": ["JCT:avg", "Pred_err:p99"],
        "rounds": 1,
        "round_size": 4,
        "evaluations_per_task": 3,
        "jobs_per_sample": 60,
        "samples": 1,
        "held_out_samples": 1,
        "hold_out_days": 1,
        **values,
    }


def states(run: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for task in run.get_task_instances():
        found.setdefault(task.task_id, []).append(str(task.state))
    return found


def test_a_point_that_the_form_picks_becomes_the_challenger(
    dag_bag: Any, lake: Path, shop: ReleaseShop, tmp_path: Path
) -> None:
    from lucid_models.releases.lifecycle import show_release
    from parts.elastic.pareto.presented import choices_of, read_front

    champion = show_release(tracking_uri=shop.uri, cluster="small")
    run = dag_bag.dags["search_pareto_front"].test(run_conf=form(pick="c1"))
    assert silent_tasks(run) == set()
    found = states(run)
    skipped = {name for name, state in found.items() if state == ["skipped"]}
    assert skipped == {f"{verb}_round_{n}" for verb in ("ask", "evaluate") for n in range(1, 12)}
    assert {state for name, task in found.items() if name not in skipped for state in task} == {"success"}
    assert len(found["evaluate_round_0"]) == 2  # four simulations, three a task
    (study_json,) = lake.glob("pareto/**/study.json")
    front = read_front(str(study_json.parent))
    challenger = show_release(tracking_uri=shop.uri, cluster="small", alias="challenger")
    assert (challenger.policy, challenger.verdict) == ("pcs", None)
    assert challenger.models == champion.models
    assert show_release(tracking_uri=shop.uri, cluster="small").version == champion.version
    assert challenger.choice is not None
    assert challenger.choice["search"] == front.study
    assert challenger.choice["preference"] == ["JCT:avg", "Pred_err:p99"]
    assert challenger.choice["objective"] == "p99_pred_err_pct"
    assert challenger.choice["jct_price_pct"] == 10  # c1 is the point of the shortest mean JCT
    assert challenger.choice["expected"]["JCT:avg"] == front.point("c1").figures["JCT:avg"]
    page = tmp_path / "state" / "fronts" / "small" / front.study[:16] / "front.html"
    assert "c1" in page.read_text(encoding="utf-8")
    assert list(choices_of(front).values()) == [point.front_id for point in front.points]

    from mlflow import MlflowClient

    run_id = challenger.choice["run_id"]
    assert any(file.path == "front.html" for file in MlflowClient(shop.uri).list_artifacts(run_id))


def test_the_graph_has_a_task_for_each_round_and_one_way_through(dag_bag: Any) -> None:
    dag = dag_bag.dags["search_pareto_front"]
    rounds = dag.params.get_param("rounds").schema["maximum"]
    stages = [*(f"round_{number}" for number in range(rounds)), "near_front", "fresh_samples"]
    for before, after in pairwise(stages):
        assert f"evaluate_{before}" in dag.get_task(f"ask_{before}").downstream_task_ids
        assert f"ask_{after}" in dag.get_task(f"evaluate_{before}").downstream_task_ids
    assert dag.get_task("evaluate_fresh_samples").downstream_task_ids == {"collect_front"}
    assert "request_choice" in dag.get_task("collect_front").downstream_task_ids
    assert [asset.name for asset in dag.get_task("build_release").outlets] == ["release_challenger"]
    assert not any(dag.get_task(name).outlets for name in dag.task_dict if name != "build_release")


def test_a_preference_is_two_objectives_or_more(dag_bag: Any) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    param = dag_bag.dags["search_pareto_front"].params.get_param("preference")
    for bad in (["JCT:avg"], ["JCT:avg", "speed:avg"], ["JCT", "Pred_err:p99"]):
        with pytest.raises(ParamValidationError):
            param.resolve(bad)
    assert param.resolve(["unfairness:p99", "JCT:p50"]) == ["unfairness:p99", "JCT:p50"]
