"""The DAGs as Airflow sees them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from tests.airflow_home import REPOSITORY
from tests.conftest import ReleaseShop, small_jobs, small_profiles


@pytest.fixture(scope="session")
def parsed_dags() -> Any:
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(REPOSITORY / "dags")


@pytest.fixture(scope="session")
def defaults(parsed_dags: Any) -> list[tuple[Any, Any]]:
    """The fields of all forms and of their tasks, each with its default."""
    holders = [holder for dag in parsed_dags.dags.values() for holder in (dag, *dag.tasks)]
    return [(param, param.value) for holder in holders for _, param in holder.params.items()]


@pytest.fixture
def dag_bag(parsed_dags: Any, defaults: list[tuple[Any, Any]]) -> Iterator[Any]:
    """All DAGs, with the defaults of their forms: a run in a test's own process writes its form into them."""
    yield parsed_dags
    for param, default in defaults:
        param.value = default


@pytest.fixture(scope="session")
def metadata_database() -> None:
    """Airflow's database, for tests that run tasks."""
    from airflow.utils.db import initdb

    initdb()


@pytest.fixture
def small_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shop: ReleaseShop) -> Path:
    """A lake with ten days of a cluster of five virtual clusters; where the tasks look for it."""
    from pipeline.profiling.profile_store import write_profile_set
    from profiler_jobs.profile_table import ProfileSet

    root = tmp_path / "lake"
    table = Lake(str(root))
    jobs = small_jobs(400)
    jobs["virtual_cluster"] = [f"vc{i % 5}" for i in range(len(jobs))]
    # The models of the shop learned until midnight of the 10th: the last day begins later than that.
    late = pd.Timestamp("2020-04-11T12:00", tz="UTC") - jobs["submit_time"].iloc[-1]
    for column in ("submit_time", "start_time", "end_time"):
        jobs.loc[jobs.index[-1], column] += late
    names = sorted(set(jobs["virtual_cluster"]))
    table.write_jobs("small", jobs)
    table.write_nodes(
        "small",
        pd.DataFrame({"virtual_cluster": names, "nodes": 4, "gpus_per_node": 8, "date": None}),
    )
    solo, pairs = small_profiles()
    write_profile_set(str(root), "small", ProfileSet(solo, pairs, out_of_memory=pd.DataFrame()))
    monkeypatch.setenv("LUCID_LAKE_URI", str(root))
    monkeypatch.setenv("LUCID_TRACKING_URI", shop.uri)
    return root
