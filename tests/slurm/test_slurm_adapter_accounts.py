"""The adapter on a Slurm with accounting: what a job is before it runs and after, ends, privileges."""

import os
import pwd
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from cluster_logs.ingest import read_jobs_file
from cluster_logs.slurm_words import EXPORT_COMMAND
from foundation.errors import ServiceUnavailableError
from live_scheduler.adapter import (
    Advise,
    Change,
    MoveTo,
    RestrictToNode,
    ReturnToDefault,
    SendHome,
    SetPriority,
    StartAfter,
)
from live_scheduler.cluster_state import OTHER_FACTS, EndedJob, LiveJob
from live_scheduler.memory.journal import JobEventKind, JobTracker
from live_scheduler.slurm import accounting
from live_scheduler.slurm.adapter import SlurmAdapter
from live_scheduler.slurm.control import PRIORITIES
from lucid_models.duration.features import DurationFeatureState
from lucid_models.duration.job_columns import FACTS
from lucid_models.duration.levels import PARTS, hierarchy
from pipeline.ingest.cluster_size import count_machines, shown_sizes
from tests.slurm.accounted_slurm import told, wait_until
from tests.slurm.adapter_jobs import FULL, ODD, runs, submit, until_reads
from tests.slurm.conftest import commands_talk_to, skip_without_slurm
from tests.slurm.private_slurm import SEARCH_PATH, Node, Partition, PrivateSlurm, short_folder

pytestmark = pytest.mark.slow

UNPRIVILEGED = "nobody"
PROGRAMS = ("squeue", "sinfo", "sdiag", "scontrol", "sacct")


@pytest.fixture(scope="module")
def accounts() -> Iterator[PrivateSlurm]:
    """Two nodes of a virtual cluster, one whose GPUs are shared, one for profiling; with accounting."""
    skip_without_slurm(accounting=True)
    folder = short_folder()
    cluster = PrivateSlurm(
        folder,
        nodes=(Node("n1"), Node("n2"), Node("s1", gpus=2, shards=8), Node("p1", gpus=2)),
        partitions=(
            Partition("vc1", ("n1", "n2")),
            Partition("shared", ("s1",)),
            Partition("prof", ("p1",), max_time_min=60, options="PreemptMode=REQUEUE"),
            Partition("urgent", ("s1", "p1"), options="PriorityTier=10"),
        ),
        accounting=True,
        settings={
            "MessageTimeout": "2",
            "PreemptType": "preempt/partition_prio",
            "PreemptMode": "CANCEL",
        },
    )
    try:
        with cluster:
            yield cluster
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def slurm(accounts: PrivateSlurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateSlurm]:
    yield from commands_talk_to(accounts, monkeypatch)


@pytest.fixture
def adapter(slurm: PrivateSlurm) -> SlurmAdapter:
    return SlurmAdapter(profiling_partition="prof")


def until_ended(
    slurm: PrivateSlurm, adapter: SlurmAdapter, job_ids: list[str], since_s: float
) -> dict[str, EndedJob]:
    """What became of jobs, once accounting knows it of all."""
    found: dict[str, EndedJob] = {}

    def look() -> bool:
        found.update({each.job.job_id: each for each in adapter.ended(job_ids, since_s)})
        return set(found) >= set(job_ids)

    slurm.wait_for(look, "all have ended in accounting")
    return found


KINDS: dict[str, list[str]] = {
    "one": ["--gres=gpu:1"],
    "limit": ["--gres=gpu:2", "--time=17", "--cpus-per-task=3"],
    "wide": ["--gpus=5", "--nodes=2", "--ntasks=2"],
    "per-node": ["--gpus-per-node=2", "--nodes=2"],
    "per-task": ["--gpus-per-task=1", "--ntasks=3", "--nodes=1"],
    "many-tasks": ["--gpus-per-task=1", "--ntasks=4", "--cpus-per-task=2", "--nodes=1"],
    "cores": ["--ntasks=6"],
    "alone": ["--exclusive", "--gres=gpu:1"],
    "share": ["--partition=shared", "--gres=shard:3"],
    "limited partition": ["--partition=prof", "--gres=gpu:1"],
}


def test_a_job_is_the_same_before_it_runs_and_in_the_log_that_models_learn_from(
    slurm: PrivateSlurm, adapter: SlurmAdapter, tmp_path: Path
) -> None:
    began_s = time.time() - 2
    ids = {
        name: submit(slurm, "--hold", f"--job-name={name}", *options, script="exit 0")
        for name, options in KINDS.items()
    }
    # The log has a line a job, and the private database holds Latin-1.
    names = [name.replace("漢字", "") for name in ODD if "\n" not in name and "\x1f" not in name]
    ids |= {name: submit(slurm, "--hold", f"--job-name={name}", script="exit 0") for name in names}
    waiting = adapter.read().by_id
    slurm.run("scontrol", "release", *ids.values())
    ended = until_ended(slurm, adapter, list(ids.values()), began_s)
    log = tmp_path / "sacct.txt"
    log.write_text(accounting.HEADER + "".join(accounting.runs_of(list(ids.values()), {})))
    frame, report = read_jobs_file(str(log), "sacct")
    assert report.rows_kept == len(ids)
    learnt = {row["job_id"]: row for row in frame.to_dict("records")}
    state = DurationFeatureState(hierarchy([(part,) for part in PARTS]), FACTS)
    for name, job_id in ids.items():
        row = learnt[job_id]
        row["submit_time_s"] = row["submit_time"].timestamp()
        for job in (waiting[job_id], ended[job_id].job):
            assert state.keys_of(job.facts()) == state.keys_of(row), name
            assert repr(state.facts_of_all([job.facts()])) == repr(state.facts_of_all([row])), name
            assert job.submit_time_s == row["submit_time_s"]
            logged = {fact: row[fact] for fact in OTHER_FACTS if not pd.isna(row[fact])}
            assert job.other_facts == logged, name
            assert {"group", "queue", "requested_memory_mib"} <= set(logged), name
        assert ended[job_id].state == row["state"] == "COMPLETED"
        assert ended[job_id].duration_s == row["duration_s"]
        assert ended[job_id].start_time_s == row["start_time"].timestamp()
    assert ended[ids["share"]].job.shares_gpus


def test_the_command_for_exports_holds_every_run_with_its_machines(
    slurm: PrivateSlurm, tmp_path: Path
) -> None:
    names = ("a|b, c", "it's two words")
    ids = [submit(slurm, "--gres=gpu:2", f"--job-name={name}", script="exit 0") for name in names]
    for job_id in ids:
        wait_until(slurm, job_id, "COMPLETED")
    log = tmp_path / "sacct.txt"
    slurm.run("sh", "-c", EXPORT_COMMAND.replace("sacct.txt", str(log)))
    frame, report = read_jobs_file(str(log), "sacct")
    assert report.reasons == {}
    jobs = frame.set_index("job_id")
    assert jobs.loc[ids, "name"].tolist() == list(names)
    assert abs(jobs.loc[ids[0], "submit_time"].timestamp() - time.time()) < 600
    sizes = shown_sizes([pa.Table.from_pandas(frame)])
    count_machines(sizes, "sacct", str(log))
    machines = sizes["vc1"].machines  # those of earlier tests' jobs among them
    assert machines.keys() <= {"n1", "n2"}
    assert min(machines.values()) >= 2


def test_ends_of_all_kinds(slurm: PrivateSlurm, adapter: SlurmAdapter, tmp_path: Path) -> None:
    began_s, may_end = time.time() - 2, tmp_path / "may_end"
    bad = submit(slurm, "--job-name=two\nlines", "--comment=and | these", script="exit 3")
    withdrawn = submit(slurm, "--hold", "--gres=gpu:2", "--partition=vc1,shared")
    waited = adapter.read().by_id[withdrawn]
    again = submit(slurm, "--gres=gpu:1", script='[ -n "$SLURM_RESTART_COUNT" ] || sleep 300')
    patient = f"while [ ! -e {may_end} ]; do sleep 0.1; done; sleep 1"
    array = submit(slurm, "--array=1-3%1", "--gres=gpu:1", script=patient)
    half = submit(slurm, "--array=1-2%1", FULL)
    until_reads(slurm, adapter, lambda state: runs(state, again, f"{half}_1"), "they run")
    first_s = adapter.read().by_id[again].start_time_s
    slurm.wait_for(lambda: time.time() > (first_s or 0) + 1.5, "a requeue gets another second")
    slurm.run("scontrol", "requeue", again)
    until_reads(slurm, adapter, lambda state: state.by_id[again].waiting, "it waits again")
    assert adapter.ended([again, array], began_s) == []
    may_end.touch()
    slurm.run("scontrol", "update", f"JobId={again}", "StartTime=now+2")
    slurm.run("scancel", withdrawn, half)
    ids = [bad, withdrawn, again, half, f"{half}_1", array, *(f"{array}_{task}" for task in (1, 2, 3))]
    ended = until_ended(slurm, adapter, ids, began_s)
    assert {job_id: ended[job_id].state for job_id in (bad, withdrawn, again, half, f"{half}_1")} == {
        bad: "FAILED",
        withdrawn: "CANCELLED",
        again: "COMPLETED",
        half: "CANCELLED",
        f"{half}_1": "CANCELLED",
    }
    assert (ended[bad].job.name, ended[bad].job.comment) == ("two\nlines", "and | these")
    # Never ran: cancelled while it waited, a task that never started, a record whose tasks all started.
    for job_id in (withdrawn, half, array):
        assert (ended[job_id].start_time_s, ended[job_id].duration_s) == (None, None)
    assert ended[withdrawn].job.gpus == 2
    # It was in two partitions, and keeps the first as its home, also in the log.
    lines = accounting.runs_of([withdrawn], {})
    log = tmp_path / "sacct.txt"
    log.write_text(accounting.HEADER + "".join(lines))
    homes = read_jobs_file(str(log), "sacct")[0][["virtual_cluster", "queue"]].to_numpy().tolist()
    assert homes == [["vc1", "vc1"]]
    for job in (waited, ended[withdrawn].job):
        assert (job.partition, job.virtual_cluster, job.facts()["queue"]) == ("vc1", "vc1", "vc1")
    assert accounting.home_of(lines[0], None) == "vc1"
    # The last run counts.
    start_s, duration_s = ended[again].start_time_s, ended[again].duration_s
    assert start_s is not None
    assert first_s is not None
    assert start_s > first_s
    assert duration_s is not None
    assert duration_s < 30
    assert all((ended[f"{array}_{task}"].duration_s or 0) >= 1 for task in (1, 2, 3))
    since = {each.job.job_id: each for each in adapter.ended_since(began_s)}
    assert set(since) >= {bad, again, f"{half}_1", *(f"{array}_{task}" for task in (1, 2, 3))}
    ends = [each.end_time_s for each in adapter.ended_since(began_s)]
    assert ends == sorted(ends)
    latest = max(ends)
    assert {each.end_time_s for each in adapter.ended_since(latest)} == {latest}


def test_a_preempted_job_has_ended_unless_it_waits_for_its_next_run(
    slurm: PrivateSlurm, adapter: SlurmAdapter
) -> None:
    began_s = time.time() - 2
    cancelled = submit(slurm, "--partition=shared", "--gres=gpu:2")
    requeued = submit(slurm, "--partition=prof", "--gres=gpu:2", "--requeue")
    until_reads(slurm, adapter, lambda state: runs(state, cancelled, requeued), "they run")
    slurm.wait_for(
        lambda: told(slurm, cancelled) == told(slurm, requeued) == "RUNNING", "accounting has them"
    )
    for node in ("s1", "p1"):
        submit(slurm, "--partition=urgent", "--gres=gpu:2", f"--nodelist={node}")
    state = until_reads(
        slurm,
        adapter,
        lambda state: cancelled not in state.by_id and state.by_id[requeued].waiting,
        "one has gone, and the other waits again",
    )
    end = until_ended(slurm, adapter, [cancelled], began_s)[cancelled]
    assert end.state == "CANCELLED"
    assert end.duration_s is not None
    # Its run is told as PREEMPTED too, and alone until slurmdbd hears of the next one.
    assert adapter.ended([requeued], began_s) == []
    assert {each.job.job_id for each in adapter.ended_since(began_s)} & {cancelled, requeued} == {cancelled}
    (event,) = JobTracker({cancelled: end.job}, {cancelled: began_s}).settle({cancelled: end}, state.at_s)
    assert (event.kind, event.duration_s) == (JobEventKind.ENDED, end.duration_s)


def test_ends_are_told_later_when_slurmdbd_is_down(slurm: PrivateSlurm, adapter: SlurmAdapter) -> None:
    began_s = time.time() - 2
    slurm.stop_accounting()
    try:
        job_id = submit(slurm, "--gres=gpu:1", script="exit 0")
        until_reads(slurm, adapter, lambda state: job_id not in state.by_id, "it has ended")
        for ask in (lambda: adapter.ended([job_id], began_s), lambda: adapter.ended_since(began_s)):
            with pytest.raises(ServiceUnavailableError):
                ask()
    finally:
        slurm.start_accounting()
    assert until_ended(slurm, adapter, [job_id], began_s)[job_id].state == "COMPLETED"


# Privileges


@pytest.fixture
def as_nobody(slurm: PrivateSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on this process's Slurm commands are an unprivileged user's."""
    if os.geteuid() != 0:
        pytest.skip("only root can run commands as another user")
    try:
        pwd.getpwnam(UNPRIVILEGED)
    except KeyError:
        pytest.skip(f"there is no user {UNPRIVILEGED}")
    slurm.folder.chmod(0o755)
    for program in PROGRAMS:
        wrapper = tmp_path / program
        found = shutil.which(program, path=SEARCH_PATH)
        wrapper.write_text(f'#!/bin/sh\nexec setpriv --reuid={UNPRIVILEGED} --clear-groups -- {found} "$@"\n')
        wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join((str(tmp_path), SEARCH_PATH)))


def grant(slurm: PrivateSlurm, level: str) -> None:
    """Give the unprivileged user an account with this adminlevel."""
    sacctmgr = ("sacctmgr", "--immediate")
    if UNPRIVILEGED not in slurm.run("sacctmgr", "-n", "-P", "show", "user", "format=user").split():
        slurm.run(*sacctmgr, "add", "account", "daemons")
        slurm.run(*sacctmgr, "add", "user", UNPRIVILEGED, "account=daemons")
    slurm.run(*sacctmgr, "modify", "user", UNPRIVILEGED, "set", f"adminlevel={level}")


def all_changes(jobs: list[LiveJob]) -> list[Change]:
    """One of each kind that a waiting job can take."""
    by_order, by_node, later, advised, moved, back, known = (job.job_id for job in jobs)
    return [
        SetPriority(by_order, PRIORITIES.most),
        RestrictToNode(by_node, "n2"),
        StartAfter(later, 3600),
        Advise(advised, "starts soon"),
        MoveTo(moved, "prof", "vc1"),
        ReturnToDefault(back),
        ReturnToDefault(known, jobs[-1].priority),
    ]


@pytest.mark.parametrize("level", ["Operator", "Administrator"])
def test_an_operator_may_do_all_that_is_asked_for(
    slurm: PrivateSlurm, adapter: SlurmAdapter, as_nobody: None, level: str
) -> None:
    full = submit(slurm, "--nodes=2", FULL)
    until_reads(slurm, adapter, lambda state: runs(state, full), "the cluster is full")
    ids = [submit(slurm, "--gres=gpu:1", "--comment=words of a user") for _ in range(7)]
    jobs = [adapter.read().by_id[job_id] for job_id in ids]
    changes = all_changes(jobs)
    grant(slurm, level)

    def granted() -> bool:
        return adapter.apply(changes[:1]) == []

    slurm.wait_for(granted, "slurmctld has learnt of the grant")
    adapter.read()
    assert adapter.apply(changes[1:]) == []
    moved = ids[4]
    state = until_reads(slurm, adapter, lambda state: runs(state, moved), "it runs where it was moved")
    job = state.by_id[moved]
    assert (job.partition, job.virtual_cluster, job.comment) == ("prof", "vc1", "words of a user")
    slurm.wait_for(lambda: time.time() > (job.start_time_s or 0) + 1.5, "a requeue gets another second")
    assert adapter.apply([SendHome(moved, "vc1", PRIORITIES.least)]) == []
    state = until_reads(slurm, adapter, lambda state: state.by_id[moved].waiting, "it waits at home")
    assert (state.by_id[moved].partition, state.by_id[moved].priority) == ("vc1", PRIORITIES.least)
    assert state.by_id[moved].virtual_cluster == "vc1"
    assert state.by_id[moved].submit_time_s == jobs[4].submit_time_s
    assert all(job.comment == "words of a user" for job in state.jobs if job.job_id in ids)
    # The mark is where this account may write, and accounting keeps it either way.
    slurm.run("scancel", moved)
    ended = until_ended(slurm, adapter, [moved], 0.0)[moved]
    assert (ended.job.virtual_cluster, ended.job.mark) == ("vc1", state.by_id[moved].mark)


def test_without_privileges_every_change_is_refused_and_nothing_happens(
    slurm: PrivateSlurm, adapter: SlurmAdapter, as_nobody: None
) -> None:
    grant(slurm, "None")
    full = submit(slurm, "--nodes=2", FULL)
    until_reads(slurm, adapter, lambda state: runs(state, full), "the cluster is full")
    ids = [submit(slurm, "--gres=gpu:1") for _ in range(7)]
    changes = [*all_changes([adapter.read().by_id[job_id] for job_id in ids]), SendHome(full, "vc1")]

    def refused() -> bool:
        return len(adapter.apply(changes)) == len(changes)

    def jobs() -> list[LiveJob]:
        """What can be changed: why a job waits is Slurm's to say, when it comes to it."""
        return [replace(job, reason="") for job in adapter.read().jobs]

    slurm.wait_for(refused, "slurmctld has learnt of the withdrawal")
    before = jobs()
    refusals = adapter.apply(changes)
    assert [refusal.change for refusal in refusals] == changes
    assert all("Invalid user id" in each.why or "denied" in each.why for each in refusals)
    assert jobs() == before
