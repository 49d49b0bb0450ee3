"""A synthetic log is physically possible, seeded, stable under more days, and fit for the lake."""

import gzip
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_logs.ingest import ingest_log
from cluster_logs.job_table import JOB_SCHEMA, THROUGHPUT_SCHEMA
from cluster_logs.lake import Lake
from cluster_logs.synthetic.cluster_profiles import PROFILES, divide_nodes
from cluster_logs.synthetic.export import write_log
from cluster_logs.synthetic.fifo_queue import start_times
from cluster_logs.synthetic.generator import SyntheticCluster, synthesize, write_to_lake
from cluster_logs.synthetic.workload_zoo import list_job_types
from foundation.errors import BadInputError, UnknownNameError


@pytest.fixture(scope="module")
def venus() -> SyntheticCluster:
    return synthesize("helios-venus", 20, 4)


def most_used(jobs: pd.DataFrame) -> int:
    """Most GPUs busy at once: ends free before starts take."""
    times = pd.concat([jobs["end_time"], jobs["start_time"]])
    change = np.concatenate([-jobs["gpus"].to_numpy(), jobs["gpus"].to_numpy()])
    order = np.lexsort((change, times.astype("int64").to_numpy()))
    return int(np.cumsum(change[order]).max())


def test_no_virtual_cluster_is_over_capacity(venus: SyntheticCluster) -> None:
    capacity = venus.nodes.set_index("virtual_cluster")
    busiest = {
        str(name): most_used(jobs) / int(capacity.loc[name, "nodes"] * capacity.loc[name, "gpus_per_node"])
        for name, jobs in venus.jobs.groupby("virtual_cluster")
    }
    assert set(busiest) == set(capacity.index)
    assert max(busiest.values()) <= 1
    assert np.mean([used > 0.95 for used in busiest.values()]) > 0.5


def test_times_are_consistent(venus: SyntheticCluster) -> None:
    jobs = venus.jobs
    assert (jobs["start_time"] >= jobs["submit_time"]).all()
    assert (jobs["duration_s"] >= 1).all()
    assert ((jobs["end_time"] - jobs["start_time"]).dt.total_seconds() == jobs["duration_s"]).all()
    assert ((jobs["start_time"] - jobs["submit_time"]).dt.total_seconds() == jobs["queuing_delay_s"]).all()
    assert jobs["submit_time"].is_monotonic_increasing
    assert jobs["submit_time"].max() < jobs["submit_time"].min().normalize() + pd.Timedelta(days=20)
    assert jobs["job_id"].is_unique
    # First in, first out: within a virtual cluster no job overtakes.
    assert all(group.is_monotonic_increasing for _, group in jobs.groupby("virtual_cluster")["start_time"])


def test_shape_of_the_tables(venus: SyntheticCluster) -> None:
    assert venus.jobs.columns.tolist() == JOB_SCHEMA.names
    assert venus.throughput.columns.tolist() == THROUGHPUT_SCHEMA.names
    assert len(venus.throughput) == 20 * 144
    assert venus.throughput["submitted_gpu_jobs"].sum() == len(venus.jobs)
    assert venus.throughput["submitted_gpus"].sum() == venus.jobs["gpus"].sum()
    assert int(venus.nodes["nodes"].sum()) == 133


@pytest.mark.parametrize(("like", "nodes"), [("helios-venus", 133), ("helios-saturn", 262), ("philly", 352)])
def test_published_cluster_sizes(like: str, nodes: int) -> None:
    assert sum(PROFILES[like].nodes) == nodes


def test_job_types_are_of_the_zoo_with_their_figures(venus: SyntheticCluster) -> None:
    zoo = {job_type.name: job_type for job_type in list_job_types()}
    seen = venus.jobs.drop_duplicates("job_type")
    assert set(seen["job_type"]) <= set(zoo)
    assert len(seen) > 50
    for row in seen.itertuples():
        assert row.gpu_util_pct == pytest.approx(zoo[row.job_type].gpu_util_pct, abs=0.01)
        assert row.gpu_mem_mib == pytest.approx(zoo[row.job_type].gpu_mem_mib, abs=0.1)
    assert venus.jobs["job_type"].str.endswith("/1").any()


def test_user_and_family_predict_the_run_time(venus: SyntheticCluster) -> None:
    """Explained variance of the logarithm by the family's mean over *earlier* jobs, not by its own value."""
    jobs = venus.jobs
    log = np.log(jobs["duration_s"])
    family = jobs["user"] + "/" + jobs["name"].str.replace(r"\d+$", "", regex=True)
    earlier = log.groupby(family).transform(lambda values: values.expanding().mean().shift())
    known = earlier.notna()
    assert known.mean() > 0.8
    residual = (log - earlier)[known].var() / log[known].var()
    assert residual < 0.5


@pytest.mark.slow
def test_same_seed_same_log_other_seed_other_log(venus: SyntheticCluster) -> None:
    pd.testing.assert_frame_equal(synthesize("helios-venus", 20, 4).jobs, venus.jobs)
    assert (
        not synthesize("helios-venus", 3, 5)
        .jobs["duration_s"]
        .equals(synthesize("helios-venus", 3, 4).jobs["duration_s"])
    )


@pytest.mark.parametrize("days", [1, 7, 13])
def test_a_longer_log_begins_with_the_shorter_one(venus: SyntheticCluster, days: int) -> None:
    short = synthesize("helios-venus", days, 4)
    pd.testing.assert_frame_equal(short.jobs, venus.jobs.head(len(short.jobs)))
    pd.testing.assert_frame_equal(short.throughput, venus.throughput.head(days * 144))


@pytest.mark.parametrize("seed", range(4))
def test_a_short_log_holds_the_job_that_nobody_ends(seed: int) -> None:
    assert synthesize("helios-venus", 3, seed).statistics()["max_duration_days"] == 50


@pytest.mark.slow
@pytest.mark.thorough("full size")
def test_sixty_days_are_made_quickly() -> None:
    begin = time.process_time()
    made = synthesize("helios-venus", 60, 9)
    assert time.process_time() - begin < 20
    assert len(made.jobs) > 80_000


@pytest.mark.parametrize(("days", "seed"), [(0, 0), (-3, 0), (100_000, 0), (5, -1)])
def test_senseless_arguments(days: int, seed: int) -> None:
    with pytest.raises(BadInputError):
        synthesize("helios-venus", days, seed)


def test_unknown_cluster_names_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="helios-saturn, helios-venus, philly"):
        synthesize("venus", 1, 0)


@pytest.mark.slow
def test_lake_takes_it_twice_and_refuses_another_seed(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    made = synthesize("philly", 2, 1)
    tables = write_to_lake(made, lake, "demo")
    assert len(tables) == 4
    write_to_lake(synthesize("philly", 3, 1), lake, "demo")
    assert len(lake.read_jobs("demo")) == len(synthesize("philly", 3, 1).jobs)
    assert lake.read_nodes("demo")["nodes"].sum() == 352
    with pytest.raises(BadInputError, match="philly-seed1"):
        write_to_lake(synthesize("philly", 2, 2), lake, "demo")


@pytest.mark.slow
def test_helios_layout(venus: SyntheticCluster, tmp_path: Path) -> None:
    path = write_log(venus, tmp_path / "deep" / "cluster_log.csv.gz", "helios")
    with gzip.open(path, "rt") as text:
        table = pd.read_csv(text)
    columns = "job_id user vc jobname gpu_num cpu_num node_num state submit_time start_time end_time"
    columns += " duration queue"
    assert " ".join(table.columns) == columns
    assert len(table) == len(venus.jobs)
    run = pd.to_datetime(table["end_time"]) - pd.to_datetime(table["start_time"])
    assert (run.dt.total_seconds() == table["duration"]).all()
    assert set(table["state"]) <= {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL"}


@pytest.mark.slow
@pytest.mark.parametrize("log_format", ["helios", "reference-csv", "philly-csv"])
def test_a_written_log_is_read_back(log_format: str, tmp_path: Path) -> None:
    made = synthesize("helios-venus", 2, 3)
    path = write_log(made, tmp_path / "log.csv.gz", log_format)
    report = ingest_log(
        source_format=log_format, input_uri=str(path), cluster="back", lake_uri=str(tmp_path / "lake")
    )
    assert (report.rows_in, report.rows_kept) == (len(made.jobs), len(made.jobs))
    back = Lake(str(tmp_path / "lake")).read_jobs("back")
    columns = ["virtual_cluster", "gpus", "submit_time", "duration_s"]
    if log_format == "helios":
        columns += ["job_id", "user", "name", "state", "start_time", "end_time"]
    pd.testing.assert_frame_equal(back[columns], made.jobs[columns])


@pytest.mark.slow
def test_other_layouts(venus: SyntheticCluster, tmp_path: Path) -> None:
    reference = pd.read_csv(write_log(venus, tmp_path / "jobs.csv", "reference-csv"), dtype={"job_id": str})
    assert (reference["estimated_duration_s"] >= 1).all()
    assert reference["gpus"].tolist() == venus.jobs["gpus"].tolist()
    rebuilt = reference[["model", "dataset", "batchsize", "amp"]].astype(str).agg("/".join, axis=1)
    assert rebuilt.tolist() == venus.jobs["job_type"].tolist()
    philly = pd.read_csv(write_log(venus, tmp_path / "philly.csv", "philly-csv"))
    assert (philly["gpu_time"] == philly["duration"] * philly["num_gpus"]).all()
    with pytest.raises(UnknownNameError, match="reference-csv"):
        write_log(venus, tmp_path / "x", "swf")


@given(
    nodes=st.integers(2, 400),
    virtual_clusters=st.integers(1, 40),
    skew=st.floats(0, 2),
)
def test_nodes_are_divided_whole(nodes: int, virtual_clusters: int, skew: float) -> None:
    if virtual_clusters > nodes:
        return
    sizes = divide_nodes(nodes, virtual_clusters, skew)
    assert sum(sizes) == nodes
    assert len(sizes) == virtual_clusters
    assert min(sizes) >= 1


jobs_of_a_queue = st.lists(
    st.tuples(st.integers(0, 200), st.integers(1, 300), st.integers(1, 16)), min_size=1, max_size=40
)


@given(jobs=jobs_of_a_queue)
def test_the_queue_keeps_order_and_capacity(jobs: list[tuple[int, int, int]]) -> None:
    jobs = sorted(jobs, key=lambda job: job[0])
    submit, run, gpus = (list(column) for column in zip(*jobs, strict=True))
    starts = start_times(submit, run, gpus, nodes=2, gpus_per_node=8)
    known = [start for start in starts if start is not None]
    assert len(known) == len(jobs)
    assert all(start >= at for start, at in zip(known, submit, strict=True))
    assert known == sorted(known)
    for now in known:
        busy = sum(g for s, r, g in zip(known, run, gpus, strict=True) if s <= now < s + r)
        assert busy <= 16


@given(jobs=st.lists(st.tuples(st.integers(0, 50), st.integers(1, 30)), min_size=1, max_size=30))
def test_one_gpu_queue_equals_the_closed_form(jobs: list[tuple[int, int]]) -> None:
    """On one GPU a job starts at max(its submission, the end of the job before it)."""
    jobs = sorted(jobs, key=lambda job: job[0])
    submit, run = [job[0] for job in jobs], [job[1] for job in jobs]
    starts = start_times(submit, run, [1] * len(jobs), nodes=1, gpus_per_node=1)
    free = 0
    for (submitted, lasts), start in zip(jobs, starts, strict=True):
        assert start == max(submitted, free)
        free = start + lasts


def test_users_without_patience_hold_back() -> None:
    starts = start_times([0, 1, 2], [100, 100, 100], [8, 8, 8], nodes=1, gpus_per_node=8, patience_s=[9] * 3)
    assert starts == [0, 100, None]


def test_a_job_that_can_never_fit() -> None:
    with pytest.raises(BadInputError, match="wants 9 GPUs"):
        start_times([0], [1], [9], nodes=1, gpus_per_node=8)
