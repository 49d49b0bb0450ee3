"""A live Slurm as a log: its accounting into the lake."""

import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cluster_logs.ingest import IngestSettings
from cluster_logs.lake import Lake
from cluster_logs.readers.nodes_file import read_nodes_file
from cluster_logs.slurm_mark import MarkStage, SlurmMark, make_mark_key
from cluster_logs.slurm_words import gpus_of_gres
from foundation.errors import BadInputError, ServiceUnavailableError
from pipeline.ingest.ingestion import ClusterLog, ingest_cluster
from tests.slurm.accounted_slurm import sbatch, told, wait_until
from tests.slurm.private_slurm import PrivateSlurm

pytestmark = pytest.mark.slow


def ingest(lake: Path, **window: Any) -> dict[str, Any]:
    return ingest_cluster(
        ClusterLog("slurm"), cluster="mini", lake_uri=str(lake), settings=IngestSettings(**window)
    )


def jobs_of(lake: Path) -> pd.DataFrame:
    return Lake(str(lake)).read_jobs("mini").set_index("job_id")


def files_of(lake: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(lake)): file.read_bytes() for file in sorted(lake.rglob("*")) if file.is_file()
    }


def tables_of(lake: Path) -> dict[str, bytes]:
    return {name: content for name, content in files_of(lake).items() if not name.startswith("staging/")}


def test_jobs_of_all_kinds_and_the_nodes_come_in_and_come_in_once(
    accounted: PrivateSlurm, tmp_path: Path
) -> None:
    slurm = accounted
    blocker = sbatch(slurm, "sleep 600", "-p", "vc1", "--gres=gpu:4", "-N2", "-J", "blocker", "-t", "20")
    pending = sbatch(slurm, "true", "-p", "vc1", "--gres=gpu:1", "-J", "never ran")
    array = sbatch(slurm, "true", "-p", "vc2", "--gres=gpu:2", "--array=0-2", "-J", "sweep")
    odd = sbatch(slurm, "true", "-p", "vc2", "--gres=gpu:1", "-J", 'a|b "c"', "--comment=for bob | and ann")
    cpu = sbatch(slurm, "exit 3", "-p", "vc2", "-c", "2", "-J", "prepare", "--mem=0")
    for job_id in (odd, cpu):
        slurm.wait_for(
            lambda job_id=job_id: told(slurm, job_id) not in ("PENDING", "RUNNING", ""), "it ended"
        )
    wait_until(slurm, array, "COMPLETED", "COMPLETED", "COMPLETED")
    wait_until(slurm, blocker, "RUNNING")
    wait_until(slurm, pending, "PENDING")
    first = ingest(tmp_path / "lake")
    assert first["rows_in"] == first["rows_kept"] + first["rows_quarantined"] + first["rows_skipped"]
    assert (first["rows_quarantined"], first["rows_skipped"]) == (0, 0)
    seen = jobs_of(tmp_path / "lake")
    asked_mib = seen["requested_memory_mib"]
    assert pd.isna(asked_mib[cpu]), "all of its node, of which accounting says the smallest one's"
    assert (asked_mib[odd], asked_mib[blocker]) == (1_000, 2_000)
    assert seen.loc[blocker, ["state", "gpus", "nodes", "virtual_cluster"]].tolist() == [
        "RUNNING",
        8,
        2,
        "vc1",
    ]
    assert seen.loc[blocker, "time_limit_s"] == 1_200.0
    assert seen.loc[pending, "state"] == "PENDING"
    assert seen.loc[odd, "name"] == "a|b `c`", "accounting makes backticks of quotes"
    assert pd.isna(seen.loc[odd, "time_limit_s"]), "neither it nor its partition has a limit"
    assert (seen["name"] == "sweep").sum() == 3, "one row a task"
    assert seen.loc[cpu, ["state", "gpus", "cpus"]].tolist() == ["FAILED", 0, 2]
    assert not any(b"for bob" in content for content in files_of(tmp_path / "lake").values())
    once = tables_of(tmp_path / "lake")
    assert ingest(tmp_path / "lake")["rows_in"] == first["rows_in"]
    assert tables_of(tmp_path / "lake") == once, "the same twice changes nothing"

    slurm.run("scancel", pending, blocker)
    wait_until(slurm, blocker, "CANCELLED")
    ingest(tmp_path / "lake")
    later = jobs_of(tmp_path / "lake")
    assert sorted(later.index) == sorted(seen.index), "rows of jobs that ended replace those of before"
    assert later.loc[blocker, "state"] == "CANCELLED"
    assert later.loc[blocker, "duration_s"] >= 0
    assert later.loc[pending, "state"] == "CANCELLED"
    assert pd.isna(later.loc[pending, "start_time"])
    assert pd.isna(later.loc[pending, "duration_s"])

    # Partitions that no job belongs to are none of the cluster's virtual clusters.
    nodes = Lake(str(tmp_path / "lake")).read_nodes("mini").set_index("virtual_cluster")
    assert nodes["nodes"].to_dict() == {"vc1": 2, "vc2": 1}
    assert set(nodes["gpus_per_node"]) == {4}


def test_a_run_that_the_profiler_cut_is_skipped_and_its_job_keeps_its_submission(
    accounted: PrivateSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = accounted
    monkeypatch.setenv("LUCID_MARK_KEY", str(tmp_path / "mark.key"))
    key = make_mark_key(tmp_path / "mark.key", "mini")
    done = tmp_path / "done"
    until_told = f"while [ ! -e {done} ]; do sleep 0.1; done"
    job = sbatch(slurm, until_told, "-H", "-p", "vc2", "--gres=gpu:1", "-J", "train", "-t", "30")
    shown = dict(
        word.split("=", 1)
        for word in slurm.run("scontrol", "--oneliner", "show", "job", job).split()
        if "=" in word
    )
    submitted = datetime.fromisoformat(shown["SubmitTime"]).timestamp()
    mark = key.sealed(SlurmMark("vc2", int(submitted), MarkStage.PROFILING), job)
    lines = [f"update JobId={job} Partition=prof Comment={mark}", f"release {job}", "quit"]
    slurm.run("scontrol", input_text="\n".join(lines) + "\n")
    wait_until(slurm, job, "RUNNING")
    ingest(tmp_path / "lake")
    assert jobs_of(tmp_path / "lake").loc[job, "virtual_cluster"] == "vc2", (
        "profiled, and at home all the same"
    )
    home = key.sealed(SlurmMark("vc2", int(submitted), MarkStage.HOME), job)
    lines = [
        f"requeue {job}",
        f"update JobId={job} Partition=vc2 StartTime=now+600 Comment={home}",
        "quit",
    ]
    slurm.run("scontrol", input_text="\n".join(lines) + "\n")
    wait_until(slurm, job, "REQUEUED", "PENDING")
    report = ingest(tmp_path / "lake")
    assert report["reasons"]["profiling_run"] >= 1
    assert report["rows_in"] == report["rows_kept"] + report["rows_quarantined"] + report["rows_skipped"]
    slurm.wait_for(lambda: slurm.run("squeue", "--noheader", "--states=PENDING", "--format=%i"), "it waits")
    slurm.wait_for(lambda: time.time() > submitted + 3, "three seconds have passed")
    slurm.run("scontrol", "update", f"JobId={job}", "StartTime=now+1")
    done.touch()
    wait_until(slurm, job, "REQUEUED", "COMPLETED")
    ingest(tmp_path / "lake")
    row = jobs_of(tmp_path / "lake").loc[job]  # one row, whatever was ingested on the way
    assert (row["state"], row["virtual_cluster"]) == ("COMPLETED", "vc2")
    assert row["submit_time"].timestamp() == submitted
    assert row["duration_s"] < 30
    assert row["queuing_delay_s"] >= 3, "from its user's submission on, the profiling run included"
    assert "prof" not in set(Lake(str(tmp_path / "lake")).read_nodes("mini")["virtual_cluster"])


def test_a_job_that_ended_unseen_is_asked_for_by_its_id(accounted: PrivateSlurm, tmp_path: Path) -> None:
    slurm = accounted
    job = sbatch(slurm, "sleep 600", "-p", "vc2", "--gres=gpu:1", "-J", "long")
    wait_until(slurm, job, "RUNNING")
    ingest(tmp_path / "lake")
    slurm.run("scancel", job)
    wait_until(slurm, job, "CANCELLED")
    # A window of next week: no day of it tells of the job.
    soon = datetime.now(UTC) + timedelta(days=7)
    report = ingest(tmp_path / "lake", start=soon, end=soon + timedelta(hours=1))
    assert report["rows_in"] >= 1
    assert jobs_of(tmp_path / "lake").loc[job, "state"] == "CANCELLED"


def test_a_table_with_a_row_a_node_stands_and_what_is_not_as_in_slurm_is_told(
    accounted: PrivateSlurm, tmp_path: Path
) -> None:
    job = sbatch(accounted, "true", "-p", "vc1", "--gres=gpu:1", "-J", "short")
    wait_until(accounted, job, "COMPLETED")
    lake, table = Lake(str(tmp_path / "lake")), tmp_path / "nodes.txt"
    table.write_text(accounted.run("scontrol", "--all", "show", "node"))
    given = read_nodes_file(str(table))
    lake.write_nodes("mini", given)
    assert ingest(tmp_path / "lake")["nodes"]["remarks"] == []
    assert set(lake.read_nodes("mini")["node"]) == set(given["node"])
    lake.write_nodes("mini", given.iloc[1:])
    (remark,) = ingest(tmp_path / "lake")["nodes"]["remarks"]
    assert f"1 differ, first {given['node'][0]}." in remark
    assert len(lake.read_nodes("mini")) == len(given) - 1


@pytest.mark.parametrize("dead", ["slurmdbd", "slurmctld"])
def test_a_slurm_that_does_not_answer_leaves_the_lake_as_it_was(
    accounted: PrivateSlurm, tmp_path: Path, dead: str
) -> None:
    slurm = accounted
    job = sbatch(slurm, "true", "-p", "vc2", "--gres=gpu:1")
    wait_until(slurm, job, "COMPLETED")
    ingest(tmp_path / "lake")
    before = files_of(tmp_path / "lake")
    if dead == "slurmdbd":
        slurm.stop_accounting(signal.SIGKILL)
    else:
        slurm.stop_controller(signal.SIGKILL)
    try:
        with pytest.raises(ServiceUnavailableError, match="did not answer"):
            ingest(tmp_path / "lake")
        assert files_of(tmp_path / "lake") == before
        with pytest.raises(ServiceUnavailableError):
            ingest(tmp_path / "new")
        assert not (tmp_path / "new").exists()
    finally:
        if dead == "slurmdbd":
            slurm.start_accounting()
        else:
            slurm.start_controller()
    ingest(tmp_path / "lake")


def test_without_accounting_it_says_so(slurm: PrivateSlurm, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="accounting"):
        ingest(tmp_path / "lake")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("gpu:4", 4),
        ("gpu:a100:4(S:0-1),gpu:2,shard:8", 6),
        ("(null)", 0),
        ("gpu", 1),
        ("mps:200,gpu:v100:2(IDX:0,1)", 2),
    ],
)
def test_gpus_of_a_node(gres: str, gpus: int) -> None:
    assert gpus_of_gres(gres) == gpus
