"""The profiling stage on a real Slurm, whatever users and administrators do meanwhile."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from live_scheduler.adapter import MoveTo
from live_scheduler.deciding.decision_maker import DecisionMaker
from live_scheduler.deciding.live_policies import live_policy
from live_scheduler.memory.journal import JobEventKind, JobTracker
from parts.live_profiling.profiling_stage import Intent, Step
from parts.live_profiling.tests.profiling_stand import (
    LIMIT_S,
    SCRIPT,
    SETTINGS,
    Stand,
    profiling_slurm,
    stand_of,
)
from tests.slurm.private_slurm import PrivateSlurm

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def own_slurm() -> Iterator[PrivateSlurm]:
    with profiling_slurm(credential_s=8) as slurm:
        yield slurm


@pytest.fixture
def slurm(own_slurm: PrivateSlurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateSlurm]:
    environment = own_slurm.environment()
    monkeypatch.setenv("SLURM_CONF", environment["SLURM_CONF"])
    monkeypatch.setenv("PATH", environment["PATH"])
    yield own_slurm
    own_slurm.clear()


@pytest.fixture
def stand(slurm: PrivateSlurm, tmp_path: Path) -> Stand:
    return stand_of(slurm, tmp_path)


def test_in_measured_home_again_and_once_only(stand: Stand) -> None:
    filler = stand.fill()
    stand.limit_s = 600.0
    ends_there = stand.submit(script="#!/bin/sh\necho $SLURM_JOB_PARTITION >> {log}\n")
    stand.until(lambda: stand.state(ends_there) == "COMPLETED", "it ends within its time")
    stand.limit_s = LIMIT_S
    submitted = {stand.submit("--comment=my own words") for _ in range(3)}
    before = {job.job_id: job for job in stand.read().jobs}
    stand.until(
        lambda: all(stand.state(job_id, "%P %T") == "vc1 PENDING" for job_id in submitted), "all are home"
    )
    assert stand.runs(ends_there) == ["prof"]
    for job_id in submitted:
        job = stand.read().by_id[job_id]
        was = before[job_id]
        assert (job.comment, job.time_limit_s) == (was.comment, was.time_limit_s) == ("my own words", 600.0)
        assert (job.virtual_cluster, job.submit_time_s, job.restarts) == ("vc1", was.submit_time_s, 1)
        assert not job.held
    stand.slurm.run("scancel", filler)
    stand.until(lambda: {stand.state(job_id) for job_id in submitted} == {"COMPLETED"}, "all are done")
    assert [stand.runs(job_id) for job_id in submitted] == [["prof", "vc1"]] * 3
    stand.one_pass()
    assert stand.stage.intents.values == {}


def test_on_the_very_node_where_it_was_measured_it_runs_again(slurm: PrivateSlurm, tmp_path: Path) -> None:
    """A partition that shares nodes: a node refuses a job in the second in which it stopped it."""
    stand = stand_of(slurm, tmp_path, "prof-over-n1")
    jobs = [stand.submit("--partition=prof-over-n1") for _ in range(4)]
    stand.stage.intents.note(Intent(job_id, "vc1", Step.ENTER, time.time(), LIMIT_S, 0) for job_id in jobs)
    stand.until(lambda: {stand.state(job_id) for job_id in jobs} == {"COMPLETED"}, "all are done")
    assert [stand.runs(job_id) for job_id in jobs] == [["prof-over-n1", "vc1"]] * 4


# What users, administrators and Slurm do meanwhile


def measured(stand: Stand, job_id: str) -> None:
    """Make passes until a job runs on the profiling partition."""
    stand.until(lambda: stand.state(job_id, "%P %T") == "prof RUNNING", "it is measured")


def test_a_job_that_its_user_cancels_is_gone_and_one_that_is_held_stays_held(stand: Stand) -> None:
    stand.fill()
    stand.limit_s = 600.0
    cancelled, held = stand.submit(), stand.submit()
    for job_id in (cancelled, held):
        measured(stand, job_id)
    stand.slurm.run("scancel", cancelled)
    stand.slurm.run("scontrol", "hold", held)
    stand.leaves.add(held)
    stand.until(lambda: stand.state(held, "%P %T") == "vc1 PENDING", "it is home")
    for _ in range(3):
        stand.one_pass()
    job = stand.read().by_id[held]
    assert (job.held, job.virtual_cluster) == (True, "vc1")
    assert stand.state(cancelled) == "CANCELLED"
    assert stand.stage.intents.values == {}


def test_a_job_whose_user_moves_it_on_is_let_go(stand: Stand) -> None:
    stand.fill()
    job_id = stand.submit()
    stand.slurm.run("scontrol", "update", "PartitionName=prof", "State=DOWN")  # so that it waits there
    try:
        stand.adapter.read()
        assert stand.adapter.apply([MoveTo(job_id, "prof", "vc1")]) == []
        stand.slurm.run("scontrol", "update", f"JobId={job_id}", "Partition=vc2")
    finally:
        stand.slurm.run("scontrol", "update", "PartitionName=prof", "State=UP")
    stand.enters.clear()
    stand.until(lambda: stand.state(job_id) == "COMPLETED", "it runs where its user wants it")
    assert stand.runs(job_id) == ["vc2"]


def test_whoever_may_not_or_cannot_run_there_is_not_moved_or_comes_back(stand: Stand) -> None:
    slurm, filler = stand.slurm, stand.fill()
    stay = {
        "longer than the partition allows": stand.submit("--time=61"),
        "without a limit": stand.submit("--time=0"),
        "not to be requeued": stand.submit("--no-requeue"),
        "of an array": stand.submit("--array=1"),
        "of several partitions": stand.submit("--partition=vc1,vc2", "--nodelist=n1"),
        "on a certain node": stand.submit("--nodelist=n1"),
        "another waits for its start": stand.submit(),
    }
    slurm.run("sbatch", f"--dependency=after:{stay['another waits for its start']}", "-o", "/dev/null",
              input_text="#!/bin/sh\n")  # fmt: skip
    for _ in range(3):
        stand.one_pass()
    assert {what: stand.state(job_id, "%T") for what, job_id in stay.items()} == dict.fromkeys(
        stay, "PENDING"
    )
    assert {what: stand.state(job_id, "%P") for what, job_id in stay.items()} == {
        what: "vc1,vc2" if "several" in what else "vc1" for what in stay
    }
    # It asks for more memory than there is: Slurm refuses the move, or lets it wait in vain.
    elsewhere = stand.submit("--mem=100G")
    for _ in range(3):
        stand.one_pass()
    stand.until(lambda: stand.state(elsewhere, "%P") == "vc1", "it is back")
    assert stand.stage.why_not(stand.read().by_id[elsewhere], stand.read()) != ""
    assert stand.one_pass() == []
    slurm.run("scancel", filler)
    slurm.wait_for(lambda: stand.state(elsewhere) == "COMPLETED", "it runs at home")
    assert stand.runs(elsewhere) == ["vc1"]


def test_a_lost_mark_a_restarted_controller_and_a_home_that_is_gone(stand: Stand) -> None:
    slurm, filler = stand.slurm, stand.fill()
    slurm.run("scontrol", "create", "PartitionName=brief", "Nodes=n1", "State=UP", "MaxTime=60")
    stand.limit_s = 600.0
    homeless = stand.submit("--partition=brief")
    unmarked = stand.submit()
    for job_id in (homeless, unmarked):
        measured(stand, job_id)
    slurm.run("scontrol", "update", f"JobId={unmarked}", "AdminComment=an administrator's", "Comment=x")
    slurm.run("scontrol", "delete", "PartitionName=brief")
    slurm.stop_controller()
    slurm.start_controller()
    stand.leaves |= {homeless, unmarked}
    stand.until(lambda: stand.state(unmarked, "%P %T") == "vc1 PENDING", "it is home")
    slurm.run("scancel", filler)
    stand.until(lambda: stand.state(unmarked) == "COMPLETED", "it is done")
    assert stand.runs(unmarked) == ["prof", "vc1"]
    # Nowhere to go: it ends where it is.
    assert stand.state(homeless, "%P %T") == "prof RUNNING"
    assert "brief" in stand.stage.left_alone[homeless]


def test_when_nobody_comes_any_more_it_runs_where_it_is(stand: Stand) -> None:
    """The daemon dies within sending it home, and with it everybody who could finish that."""
    stand.fill()
    stand.limit_s = 600.0
    job_id = stand.submit(
        script='#!/bin/sh\necho $SLURM_JOB_PARTITION >> {log}\n[ "$SLURM_RESTART_COUNT" ] || sleep 600\n'
    )
    measured(stand, job_id)
    stand.slurm.run("scontrol", "requeue", job_id)
    stand.slurm.wait_for(lambda: stand.state(job_id) == "COMPLETED", "it ends")
    assert stand.runs(job_id) == ["prof", "prof"]


def test_a_run_that_takes_long_to_end_does_not_keep_the_job_waiting(stand: Stand) -> None:
    """It is told to end and does not, so Slurm sets a begin time of its own once it has: 9 s later here."""
    filler = stand.fill()
    script = SCRIPT.replace("exec sleep 600", "trap '' TERM; while :; do sleep 1; done")
    job_id = stand.submit(script=script)
    seen = JobTracker()
    happened: list[JobEventKind] = []

    def home() -> bool:
        happened.extend(event.kind for event in seen.follow(stand.read()) if event.job_id == job_id)
        return stand.state(job_id, "%P %T") == "vc1 PENDING"

    stand.until(home, "it is home")
    home()
    # Slurm says that it starts this second, every second, until its run has ended: it does not.
    assert happened == [JobEventKind.SUBMITTED, JobEventKind.STARTED, JobEventKind.REQUEUED]
    stand.until(lambda: not stand.stage.intents.values, "its begin time is its own again")
    job = stand.read().by_id[job_id]
    assert job.begin_time_s is None or job.begin_time_s <= stand.read().at_s + 4
    stand.slurm.run("scancel", filler)
    stand.until(lambda: stand.state(job_id) == "COMPLETED", "it is done")
    assert stand.runs(job_id) == ["prof", "vc1"]


class OneMinute:
    """Everybody is believed to run for a minute."""

    def __init__(self) -> None:
        self.waiting: list[str] = []

    def join(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        self.waiting += [job["job_id"] for job in jobs]

    def leave(self, job_ids: Iterable[str]) -> None:
        gone = set(job_ids)
        self.waiting = [job_id for job_id in self.waiting if job_id not in gone]

    def estimates(self, at_s: float) -> NDArray[np.float64]:
        return np.full(len(self.waiting), 60.0)

    def estimate_now(self, jobs: Sequence[Mapping[str, Any]], at_s: float) -> list[float]:
        return [60.0] * len(jobs)


def test_lucid_itself_says_who_is_measured_and_for_how_long(stand: Stand) -> None:
    settings = replace(SETTINGS, partitions=("vc1",))
    limits = {"profiling_limit_s": LIMIT_S, "profiling_limit_min_s": LIMIT_S, "profiling_max_gpus": 2}
    maker = DecisionMaker(
        live_policy(replace(settings, policy="lucid", policy_settings=limits)),
        OneMinute(),
        settings,
        release="r",
        profiling=stand.stage,
    )

    def one_pass() -> None:
        cluster = stand.read()
        maker.follow(cluster)
        stand.adapter.apply(stand.stage.changes(maker.decide(), cluster))

    filler = stand.fill()
    one_pass()  # a policy that has never seen the cluster sends everybody home
    small, large, too_long = stand.submit(), stand.submit("--gres=gpu:3"), stand.submit("--time=61")

    def home_again() -> bool:
        one_pass()
        return bool(stand.runs(small)) and stand.state(small, "%P %T") == "vc1 PENDING"

    stand.slurm.wait_for(home_again, "the small one is home again")
    stand.slurm.run("scancel", filler)
    jobs = [small, large, too_long]

    def done() -> bool:
        one_pass()
        return all(stand.state(job_id) == "COMPLETED" for job_id in jobs)

    stand.slurm.wait_for(done, "all are done")
    assert [stand.runs(job_id) for job_id in jobs] == [["prof", "vc1"], ["vc1"], ["vc1"]]
