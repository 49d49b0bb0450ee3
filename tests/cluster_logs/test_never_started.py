"""A job that never ran has no start, no wait and no run time, whatever its state and its End column say."""

from pathlib import Path

import pandas as pd
import pytest

from cluster_logs.ingest import IngestReport, read_jobs_file
from cluster_logs.lake import Lake
from pipeline.ingest.cluster_size import NodesNeededError
from pipeline.ingest.ingestion import ClusterLog, ingest_cluster

SUBMIT, ENDED = "2016-12-31T06:30:49", "2016-12-31T16:53:22"
HELD = "billing=8,cpu=8,gres/gpu=1,node=1"
ASKED = "cpu=8,gres/gpu=1,node=1"
COLUMNS = (
    "JobIDRaw",
    "Partition",
    "State",
    "Submit",
    "Start",
    "End",
    "Elapsed",
    "AllocTRES",
    "ReqTRES",
    "NodeList",
)
USUAL = {
    "JobIDRaw": "1",
    "Partition": "gpu",
    "State": "CANCELLED by 1001",
    "Submit": SUBMIT,
    "Start": ENDED,
    "End": ENDED,
    "Elapsed": "00:00:00",
    "AllocTRES": "",
    "ReqTRES": ASKED,
    "NodeList": "None assigned",
}


def read(
    tmp_path: Path, *rows: dict[str, str], without: tuple[str, ...] = ()
) -> tuple[pd.DataFrame, IngestReport]:
    columns = [name for name in (*COLUMNS, *({} if not rows else rows[0])) if name not in without]
    columns = list(dict.fromkeys(columns))
    path = tmp_path / "sacct.txt"
    lines = ["|".join((USUAL | row)[name] for name in columns) for row in rows]
    path.write_text("\n".join(["|".join(columns), *lines, ""]))
    return read_jobs_file(str(path), "sacct")


def ran(job: pd.Series) -> bool:
    """Whether the job counts as one that started; its facts must agree."""
    known = job[["start_time", "queuing_delay_s", "duration_s", "service_s"]].notna()
    assert known.all() or not known.any()
    return bool(known.all())


@pytest.mark.parametrize(
    "state", ["CANCELLED by 1001", "CANCELLED", "DEADLINE", "FAILED", "TIMEOUT", "BOOT_FAIL"]
)
@pytest.mark.parametrize(
    ("row", "without"),
    [
        ({}, ()),
        ({"AllocTRES": HELD}, ()),  # as some versions copy the request
        ({}, ("AllocTRES",)),
        ({"NodeList": ""}, ()),
        ({"NodeList": ""}, ("AllocTRES",)),
        ({}, ("NodeList",)),
        ({"AllocNodes": "0"}, ("NodeList", "AllocTRES")),
        ({}, ("Elapsed",)),
        ({"Start": "None"}, ("NodeList", "AllocTRES")),
        ({"Start": "Unknown"}, ()),
        ({"Start": SUBMIT, "End": SUBMIT}, ()),  # a submission that was refused
        ({"Start": SUBMIT, "Elapsed": "10:22:33"}, ()),  # nothing was given and no node: no run
    ],
)
def test_a_job_without_a_node_never_started(
    tmp_path: Path, state: str, row: dict[str, str], without: tuple[str, ...]
) -> None:
    jobs, report = read(tmp_path, USUAL | {"State": state} | row, without=without)
    assert not ran(jobs.loc[0])
    assert jobs.loc[0, "end_time"] == pd.Timestamp((USUAL | row)["End"], tz="UTC")
    assert (jobs.loc[0, "gpus"], report.rows_kept) == (1, 1)


@pytest.mark.parametrize(
    ("row", "without"),
    [
        ({"AllocTRES": HELD, "NodeList": "n1"}, ()),
        ({"NodeList": "n1"}, ("AllocTRES",)),
        ({"NodeList": "n1"}, ()),  # a cluster that accounts for no TRES
        ({"AllocTRES": HELD}, ("NodeList",)),
        ({"AllocNodes": "1"}, ("NodeList", "AllocTRES")),
        ({}, ("NodeList", "AllocTRES")),  # nothing tells of nodes, and a run may fail within its first second
        ({"NodeList": "", "Start": SUBMIT, "Elapsed": "10:22:33"}, ()),  # an export that leaves both empty
    ],
)
def test_a_run_of_no_time_on_a_node_did_start(
    tmp_path: Path, row: dict[str, str], without: tuple[str, ...]
) -> None:
    jobs, _ = read(tmp_path, USUAL | {"State": "FAILED"} | row, without=without)
    assert ran(jobs.loc[0])


@pytest.mark.parametrize("without", [("NodeList", "AllocTRES"), ("NodeList",)])
@pytest.mark.parametrize(
    "row",
    [
        {"AllocTRES": HELD},  # as some versions copy the request
        {"State": "FAILED", "Start": SUBMIT, "End": SUBMIT, "TimelimitRaw": "Partition_Limit"},  # refused
    ],
)
def test_a_state_or_a_limit_tells_of_no_run_in_a_log_without_nodes(
    tmp_path: Path, row: dict[str, str], without: tuple[str, ...]
) -> None:
    jobs, _ = read(tmp_path, row, without=without)
    assert not ran(jobs.loc[0])


@pytest.mark.parametrize(
    ("state", "start"),
    [
        ("PENDING", ENDED),
        ("PENDING", "Unknown"),
        ("RUNNING", SUBMIT),
        ("SUSPENDED", SUBMIT),
        ("COMPLETING", SUBMIT),
        ("REQUEUE_HOLD", ENDED),
        ("SPECIAL_EXIT", ENDED),
    ],
)
def test_an_unfinished_job_has_no_end_whatever_its_row_holds(tmp_path: Path, state: str, start: str) -> None:
    waits = state in ("PENDING", "REQUEUE_HOLD", "SPECIAL_EXIT")
    held = {} if waits else {"AllocTRES": HELD, "NodeList": "n1"}
    for end in (ENDED, "2016-12-30T00:00:00", "Unknown"):  # before its submission, too
        jobs, report = read(tmp_path, {"State": state, "Start": start, "End": end, **held})
        assert report.rows_kept == 1
        assert jobs.loc[0, ["end_time", "duration_s", "service_s"]].isna().all()
        assert pd.isna(jobs.loc[0, "start_time"]) == waits


def test_a_requeued_run_that_did_not_end_waits(tmp_path: Path) -> None:
    held = {"AllocTRES": HELD, "NodeList": "n1", "Start": SUBMIT, "Elapsed": "10:22:33"}
    ended, waits, nowhere = (
        read(tmp_path, {"State": "REQUEUED", **row})[0].loc[0]
        for row in (held, held | {"End": "Unknown"}, {"Start": "Unknown"})
    )
    assert (ended["state"], ended["duration_s"]) == ("CANCELLED", 37_353)
    for job in (waits, nowhere):
        assert job["state"] == "PENDING"
        assert job[["start_time", "end_time", "duration_s"]].isna().all()


@pytest.mark.parametrize(
    ("row", "has_run"),
    [
        ("30 -1 8", False),
        ("30 0 8", False),
        ("30 50 0", False),
        ("30 50 -1", False),
        ("30 50 8", True),
    ],
)
def test_a_job_of_swf_cancelled_before_it_ran_never_started(tmp_path: Path, row: str, has_run: bool) -> None:
    path = tmp_path / "log.swf"
    path.write_text(
        f"1 0 {row} -1 -1 8 -1 -1 5 1 1 1 -1 1 -1 -1\n2 0 30 0 8 -1 -1 8 -1 -1 0 1 1 1 -1 1 -1 -1\n"
    )
    jobs, _ = read_jobs_file(str(path), "swf")
    assert [ran(job) for _, job in jobs.iterrows()] == [has_run, True]
    assert jobs["gpus"].tolist() == [8, 8]


def test_the_wait_of_a_job_of_swf_that_never_ran_ends_when_it_left(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(
        "1 100 40 0 -1 -1 -1 8 -1 -1 5 1 1 1 -1 1 -1 -1\n2 100 -1 0 -1 -1 -1 8 -1 -1 5 1 1 1 -1 1 -1 -1\n"
    )
    jobs, _ = read_jobs_file(str(path), "swf")
    assert jobs["start_time"].isna().all()
    waited = (jobs["end_time"] - jobs["submit_time"]).dt.total_seconds()
    assert waited[0] == 40.0
    assert waited.isna().tolist() == [False, True], "the log does not say when the other one left"


def test_a_job_of_swf_whose_wait_is_unknown_keeps_its_run_time_of_none(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text("1 0 -1 0 8 -1 -1 8 -1 -1 -1 1 1 1 -1 1 -1 -1\n")
    jobs, _ = read_jobs_file(str(path), "swf")
    assert jobs["duration_s"].tolist() == [0.0]
    assert jobs["start_time"].isna().all()


def test_a_wait_that_a_source_states_of_a_job_without_a_start_is_none(tmp_path: Path) -> None:
    path = tmp_path / "cluster_log.csv"
    path.write_text(
        "job_id,user,vc,gpu_num,state,submit_time,start_time,end_time,duration,queue\n"
        "1,u,vc,8,CANCELLED,2020-04-01 00:00:00,None,2020-04-01 01:00:00,0,3600\n"
    )
    jobs, _ = read_jobs_file(str(path), "helios")
    assert not ran(jobs.loc[0])


def test_a_submission_that_was_refused_makes_no_cluster_larger(tmp_path: Path) -> None:
    """It counts as no start, in no bin, and for no node that would have to be there."""
    refused = {"State": "FAILED", "Start": SUBMIT, "End": SUBMIT, "ReqTRES": "cpu=8,gres/gpu=16,node=2"}
    held = {"JobIDRaw": "2", "State": "COMPLETED", "Start": SUBMIT, "Elapsed": "10:22:33", "AllocTRES": HELD}
    read(tmp_path, refused, held | {"NodeList": "n1"})
    log, lake = ClusterLog("sacct", str(tmp_path / "sacct.txt")), str(tmp_path / "lake")
    with pytest.raises(NodesNeededError, match=r"\(2 jobs, 1 GPUs at once, 1 machines named\)") as error:
        ingest_cluster(log, cluster="c", lake_uri=lake)
    assert str(error.value).endswith("\ngpu,1,1")
    bins = Lake(lake).read_throughput("c")
    assert bins[["submitted_jobs", "started_jobs", "started_gpus"]].sum().tolist() == [2, 1, 1]
