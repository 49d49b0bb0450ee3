"""The DAG `evaluate_policies` with real task runs, a real lake and a real MLflow store."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from foundation.site import Site
from tests.dags.run_facts import all_states_of, result_of, silent_tasks
from tests.fixtures import small_jobs, small_profiles

pytestmark = pytest.mark.usefixtures("metadata_database")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mlflow_server: str) -> Path:
    """A lake with 80 jobs of one virtual cluster, its nodes and profiles; where the tasks look for it."""
    from pipeline.profiling.profile_store import write_profile_set
    from profiler_jobs.profile_table import ProfileSet

    root = tmp_path / "lake"
    lake = Lake(str(root))
    lake.write_jobs("tiny", small_jobs(80))
    lake.write_nodes(
        "tiny", pd.DataFrame({"virtual_cluster": ["vc"], "nodes": [3], "gpus_per_node": [8], "date": [None]})
    )
    solo, pairs = small_profiles()
    write_profile_set(
        Site(lake=str(root), cluster="tiny"), ProfileSet(solo, pairs, out_of_memory=pd.DataFrame())
    )
    monkeypatch.setenv("LUCID_LAKE_URI", str(root))
    monkeypatch.setenv("LUCID_TRACKING_URI", mlflow_server)
    return root


def form(**values: Any) -> dict[str, Any]:
    return {
        "cluster": "tiny",
        "policies": ["fifo", "lucid"],
        "settings": {"lucid": {"profiling_limit_s": [60, 100]}},
        "seeds": [0, 1],
        "runs_per_task": 2,
        **values,
    }


def table_of(lake: Path) -> tuple[Path, pd.DataFrame]:
    (folder,) = (lake / "sweeps" / "cluster=tiny").iterdir()
    return folder, pd.read_parquet(folder / "results.parquet")


def test_runs_are_mapped_collected_and_not_repeated(dag_bag: Any, lake: Path, mlflow_server: str) -> None:
    dag = dag_bag.dags["evaluate_policies"]
    run = dag.test(run_conf=form())
    assert silent_tasks(run) == set()
    assert all_states_of(run) == {
        "plan_sweep": ["success"],
        "simulate_runs": ["success"] * 3,  # six runs, two a task
        "collect_sweep": ["success"],
    }
    folder, table = table_of(lake)
    assert table[["policy", "seed", "status"]].to_numpy().tolist() == [
        [policy, seed, "ok"] for policy in ("fifo", "lucid", "lucid") for seed in (0, 1)
    ]
    assert table["lucid.profiling_limit_s"].dropna().tolist() == [60, 60, 100, 100]
    assert table["jobs"].tolist() == [80] * 6
    assert (folder / "sweep_lucid.profiling_limit_s.png").is_file()

    from mlflow import MlflowClient

    client = MlflowClient(mlflow_server)
    experiment = client.get_experiment_by_name("lucid-policy-evaluation")
    logged = client.search_runs([experiment.experiment_id], f"tags.sweep_uri = '{folder}'")
    assert len(logged) == 1
    mean = table["mean_jct_s"][:2].mean()
    assert logged[0].data.metrics["fifo/mean_jct_s"] == pytest.approx(mean, rel=1e-5)  # six digits are kept
    artifacts = {file.path for file in client.list_artifacts(logged[0].info.run_id)}
    assert {"results.csv", "results.parquet", "sweep_policies.png"} <= artifacts

    before = {file: file.stat().st_mtime_ns for file in (folder / "runs").iterdir()}
    again = dag.test(run_conf=form())
    assert all_states_of(again) == {
        "plan_sweep": ["success"],
        "simulate_runs": ["success"],  # one task, with nothing left to do
        "collect_sweep": ["success"],
    }
    assert {file: file.stat().st_mtime_ns for file in (folder / "runs").iterdir()} == before


def test_a_failed_run_is_a_row_and_the_dag_fails_when_all_is_written(dag_bag: Any, lake: Path) -> None:
    run = dag_bag.dags["evaluate_policies"].test(
        run_conf=form(settings={"lucid": {"profiling_limit_s": [-1, 60]}}, seeds=[0])
    )
    assert all_states_of(run) == {
        "plan_sweep": ["success"],
        "simulate_runs": ["success"] * 2,
        "collect_sweep": ["failed"],
    }
    _, table = table_of(lake)
    assert table["status"].tolist() == ["ok", "failed", "ok"]
    assert "profiling_limit_s" in table["error"][1]


def test_a_name_that_does_not_exist_ends_it_at_the_plan(dag_bag: Any, lake: Path) -> None:
    run = dag_bag.dags["evaluate_policies"].test(run_conf=form(variants=[{"policy": "no-such"}], settings={}))
    assert all_states_of(run)["plan_sweep"] == ["failed"]
    assert "success" not in all_states_of(run)["collect_sweep"]
    assert not (lake / "sweeps").exists()


def test_a_file_needs_no_lake_of_its_own(
    dag_bag: Any, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.lucid_cli.test_cli_contract import reference_csv

    monkeypatch.setenv("LUCID_INPUT_ROOTS", str(tmp_path))
    log = reference_csv(tmp_path / "log.csv", jobs=40)
    (tmp_path / "nodes.csv").write_text("virtual_cluster,nodes\nvc0,1\nvc1,2\n")
    run = dag_bag.dags["evaluate_policies"].test(
        run_conf=form(
            policies=["fifo"],
            variants=[{"policy": "sjf"}],
            settings={},
            input_uri=str(log),
            source_format="reference-csv",
            nodes_uri=str(tmp_path / "nodes.csv"),
            seeds=[0],
        )
    )
    assert all_states_of(run) == {
        "plan_sweep": ["success"],
        "simulate_runs": ["success"],
        "collect_sweep": ["success"],
    }
    _, table = table_of(lake)
    assert table["jobs"].tolist() == [40, 40]


def test_a_what_if_is_kept_with_what_was_asked(
    dag_bag: Any, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipeline.overview.what_if import SeenPart, read_pictures
    from pipeline.what_if.kept import read_kept

    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    asked = {"cluster": "tiny", "policies": ["fifo"], "added_nodes": {"*": 1}, "keep_jobs": True}
    run = dag_bag.dags["evaluate_policies"].test(run_conf={**asked, "runs_per_task": 1})
    assert all_states_of(run)["simulate_runs"] == ["success"] * 2
    assert all_states_of(run)["collect_sweep"] == ["success"]
    kept = read_kept(tmp_path / "state" / "what_if", run.run_id)
    assert [variant["name"] for variant in kept["variants"]] == ["fifo", "fifo, nodes +1 in all"]
    assert [variant["gpus"] for variant in kept["variants"]] == [24, 32]
    assert result_of(run, "collect_sweep")["page"] == f"plugin/lucid/what-if/{quote(run.run_id, safe='')}"
    assert kept["asked"]["fields"]["added_nodes"] == {"*": 1}
    assert len(read_pictures(tmp_path / "state" / "what_if", run.run_id, SeenPart())["variants"]) == 2
