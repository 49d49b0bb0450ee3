"""Colocation on a real Slurm: which jobs share a GPU is the policy's word; none waits for a dead daemon."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from live_scheduler.adapter import Change, StartAfter, is_kept
from live_scheduler.cluster_state import Kept, LiveJob
from live_scheduler.deciding.decision_maker import DecisionMaker
from live_scheduler.deciding.live_policies import live_policy
from live_scheduler.live_settings import LiveSettings, Mode
from live_scheduler.safety.operators_word import OperatorsWord
from live_scheduler.safety.restoring import restore
from live_scheduler.safety.touched import TouchedJobs
from live_scheduler.slurm.adapter import SlurmAdapter
from live_scheduler.slurm.shared_partitions import NEW_JOBS_WAIT_S, SharedPartitions
from simulator.workload.job import JobProfile
from tests.slurm.conftest import skip_without_slurm
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm, short_folder

pytestmark = pytest.mark.slow

SETTINGS = LiveSettings("private", Mode.CONTROL, shared_partitions=("shared",))
# Sharing scores: two light ones (0 + 0) or a light and a heavy one (0 + 2) may share, two heavy ones may not.
PROFILES = {
    "light": JobProfile(20.0, 5.0, 2_000.0, sharing_score=0),
    "heavy": JobProfile(95.0, 70.0, 9_000.0, sharing_score=2),
}
# As job_submit.lua has it for new jobs of shared partitions.
AT_FIRST = f"--begin=now+{NEW_JOBS_WAIT_S}"


@pytest.fixture(scope="module")
def own_slurm() -> Iterator[PrivateSlurm]:
    skip_without_slurm()
    folder = short_folder()
    nodes = (Node("s1", gpus=1, shards=2), Node("s2", gpus=1, shards=2), Node("n1", gpus=4))
    partitions = (Partition("vc1", ("n1",)), Partition("shared", ("s1", "s2")))
    try:
        with PrivateSlurm(folder, nodes=nodes, partitions=partitions) as slurm:
            yield slurm
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def slurm(own_slurm: PrivateSlurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateSlurm]:
    environment = own_slurm.environment()
    monkeypatch.setenv("SLURM_CONF", environment["SLURM_CONF"])
    monkeypatch.setenv("PATH", environment["PATH"])
    yield own_slurm
    own_slurm.clear()


class Believed:
    """Estimates by the job's time limit."""

    def __init__(self) -> None:
        self.waiting: list[str] = []
        self._by_job: dict[str, float] = {}

    def join(self, jobs) -> None:
        for job in jobs:
            self.waiting.append(job["job_id"])
            self._by_job[job["job_id"]] = job["time_limit_s"] or 600.0

    def leave(self, job_ids) -> None:
        gone = set(job_ids)
        self.waiting = [job_id for job_id in self.waiting if job_id not in gone]

    def estimates(self, at_s: float):
        return np.array([self._by_job[job_id] for job_id in self.waiting])

    def estimate_now(self, jobs, at_s: float):
        return [job["time_limit_s"] or 600.0 for job in jobs]


class Scheduler:
    """The part of the daemon that matters here, with Lucid's packing rule."""

    def __init__(self, slurm: PrivateSlurm, **restart) -> None:
        self.slurm = slurm
        self.shared = SharedPartitions(SETTINGS, **restart)
        self.adapter = self.shared.over(SlurmAdapter())
        self.maker = DecisionMaker(
            live_policy(SETTINGS), Believed(), SETTINGS, release="r", profile_of=profile_of
        )

    def one_pass(self) -> list[Change]:
        cluster = self.adapter.read()
        self.maker.follow(cluster)
        changes = self.shared.changes(self.maker.decide(), cluster)
        assert self.adapter.apply(changes) == []
        return changes

    def submit(self, name: str, *options: str, partition: str = "shared", gres: str = "shard:1") -> str:
        words = ("--parsable", "-J", name, "-p", partition, f"--gres={gres}", "-o", "/dev/null", "--time=10")
        return self.slurm.run("sbatch", *words, *options, input_text="#!/bin/sh\nsleep 600\n").strip()

    def node(self, job_id: str) -> str:
        """Where it runs; "" while it waits."""
        state, _, node = self.slurm.run("squeue", "-h", "-j", job_id, "-o", "%T|%N").strip().partition("|")
        return node if state == "RUNNING" else ""

    def until_running(self, *job_ids: str) -> list[str]:
        def look() -> bool:
            self.one_pass()
            return all(self.node(job_id) for job_id in job_ids)

        self.slurm.wait_for(look, f"{job_ids} run")
        return [self.node(job_id) for job_id in job_ids]

    def settle(self) -> None:
        """Make passes until nothing is asked for but what was asked already."""
        for _ in range(4):
            self.one_pass()


def profile_of(job: LiveJob) -> JobProfile | None:
    return PROFILES.get(job.name or "")


def test_allowed_pairs_share_a_gpu_and_others_never_do(slurm: PrivateSlurm) -> None:
    scheduler = Scheduler(slurm)
    whole = scheduler.submit("any", partition="vc1", gres="gpu:1")
    first, second = (scheduler.submit("heavy", AT_FIRST) for _ in range(2))
    # Slurm alone would put both on s1.
    assert sorted(scheduler.until_running(first, second)) == ["s1", "s2"]
    third, unknown = scheduler.submit("heavy", AT_FIRST), scheduler.submit("nobody measured it", AT_FIRST)
    scheduler.settle()
    assert (scheduler.node(third), scheduler.node(unknown)) == ("", "")
    light = scheduler.submit("light", AT_FIRST)
    (shared,) = scheduler.until_running(light)
    assert shared in ("s1", "s2")
    another = scheduler.submit("light", AT_FIRST)
    (other,) = scheduler.until_running(another)
    assert {shared, other} == {"s1", "s2"}
    # A GPU that is idle again goes to one of those that waited, and to one only.
    on_s1 = [job_id for job_id in (first, second, light, another) if scheduler.node(job_id) == "s1"]
    slurm.run("scancel", *on_s1)

    def one_runs() -> bool:
        scheduler.one_pass()
        return bool(scheduler.node(third) or scheduler.node(unknown))

    slurm.wait_for(one_runs, "one of those that waited runs")
    scheduler.settle()
    assert sorted((scheduler.node(third), scheduler.node(unknown))) == ["", "s1"]
    assert scheduler.node(whole) == "n1"


def test_without_a_daemon_they_start_by_themselves(slurm: PrivateSlurm) -> None:
    scheduler = Scheduler(slurm)
    scheduler.shared.wait_s = 4  # what the last begin time is at most, here in a moment
    jobs = [scheduler.submit("heavy", AT_FIRST) for _ in range(4)]
    scheduler.until_running(*jobs[:1])
    slurm.wait_for(lambda: scheduler.one_pass() is not None and len(running(scheduler, jobs)) == 2, "two run")
    scheduler.settle()
    assert len(running(scheduler, jobs)) == 2
    for job_id in jobs:  # the daemon's last pass may have been any
        if not scheduler.node(job_id):
            scheduler.adapter.apply([StartAfter(job_id, 4)])
    slurm.wait_for(lambda: len(running(scheduler, jobs)) == 4, "all run")


def running(scheduler: Scheduler, jobs: list[str]) -> list[str]:
    return [job_id for job_id in jobs if scheduler.node(job_id)]


def test_what_people_ask_for_is_respected(slurm: PrivateSlurm) -> None:
    scheduler = Scheduler(slurm)
    later = scheduler.submit("light", "--begin=now+3000")
    held = scheduler.submit("light", "--hold")
    array = scheduler.submit("light", "--array=1-2", "--begin=now+3000")
    named = scheduler.submit("light", "--nodelist=s2", "--begin=now+3000")
    begins = {job.job_id: job.begin_time_s for job in scheduler.adapter.read().jobs}
    scheduler.settle()
    jobs = scheduler.adapter.read().by_id
    assert {job_id: job.begin_time_s for job_id, job in jobs.items()} == begins
    assert jobs[held].held
    assert set(scheduler.shared.left_alone) == {array, named}
    assert jobs[named].pinned_to == "s2"
    assert not running(scheduler, [later, held, named])


def test_nobody_starts_before_the_time_that_its_user_named(slurm: PrivateSlurm) -> None:
    scheduler = Scheduler(slurm)
    scheduler.shared.wait_s = 20  # so its begin time is near enough to be renewed at once
    job_id = scheduler.submit("light", "--begin=now+6")
    begin_s = scheduler.adapter.read().by_id[job_id].begin_time_s
    assert begin_s is not None
    scheduler.settle()
    renewed_s = scheduler.adapter.read().by_id[job_id].begin_time_s
    assert renewed_s is not None
    assert renewed_s > begin_s + 5
    scheduler.until_running(job_id)
    started_s = scheduler.adapter.read().by_id[job_id].start_time_s
    assert started_s is not None
    assert begin_s <= started_s < renewed_s


def test_a_daemon_that_comes_back_knows_its_own_begin_times(slurm: PrivateSlurm) -> None:
    before = Scheduler(slurm)
    heavy = [before.submit("heavy", AT_FIRST) for _ in range(3)]
    slurm.wait_for(lambda: before.one_pass() is not None and len(running(before, heavy)) == 2, "two run")
    (third,) = set(heavy) - set(running(before, heavy))
    before.adapter.apply([StartAfter(third, before.shared.wait_s)])
    unknowing, after = Scheduler(slurm), Scheduler(slurm, delayed=[third])
    slurm.run("scancel", running(before, heavy)[0])
    for _ in range(3):
        assert unknowing.one_pass() == []  # for all that it knows the user wants the job to start later
    assert after.until_running(third)


def test_what_did_not_start_is_called_back(slurm: PrivateSlurm) -> None:
    clock = [0.0]
    scheduler = Scheduler(slurm, monotonic=lambda: clock[0])
    job_id = scheduler.submit("heavy", AT_FIRST)
    cluster = scheduler.adapter.read()
    scheduler.maker.follow(cluster)
    nodes = "NodeName=s1,s2"
    slurm.run("scontrol", "update", nodes, "State=DRAIN", "Reason=test")  # in the very moment
    try:
        scheduler.adapter.apply(scheduler.shared.changes(scheduler.maker.decide(), cluster))
        assert scheduler.adapter.read().by_id[job_id].pinned_to in ("s1", "s2")
        scheduler.settle()
        assert scheduler.adapter.read().by_id[job_id].pinned_to in ("s1", "s2")
        clock[0] += 60.0
        scheduler.settle()
        job = scheduler.adapter.read().by_id[job_id]
        assert (job.pinned_to, job.held, job.waiting) == ("", False, True)
        assert job.begin_time_s is not None
        assert job.begin_time_s > scheduler.adapter.read().at_s
    finally:
        slurm.run("scontrol", "update", nodes, "State=RESUME")
    assert scheduler.until_running(job_id)


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_who_only_looks_on_delays_nobody(slurm: PrivateSlurm, mode: Mode) -> None:
    scheduler = Scheduler(slurm)
    scheduler.shared = SharedPartitions(replace(SETTINGS, mode=mode))
    scheduler.adapter = scheduler.shared.over(SlurmAdapter())
    scheduler.submit("heavy", AT_FIRST)
    assert scheduler.one_pass() == []


def test_a_begin_time_that_an_operator_sets_after_ours_stands(slurm: PrivateSlurm, tmp_path: Path) -> None:
    scheduler = Scheduler(slurm)
    touched = TouchedJobs(tmp_path)
    words = OperatorsWord(tmp_path, scheduler.adapter, touched)

    def one_pass() -> dict[str, LiveJob]:
        cluster = words.heard(scheduler.adapter.read())
        scheduler.maker.follow(cluster)
        wanted = scheduler.shared.changes(scheduler.maker.decide(), cluster)
        changes = [change for change in wanted if not is_kept(change, cluster.by_id[change.job_id])]
        touched.note(changes, cluster, scheduler.adapter.priorities)
        assert scheduler.adapter.apply(changes) == []
        return dict(cluster.by_id)

    def begins(job: str) -> str:
        return slurm.run("squeue", "-h", f"-j{job}", "--Format=EligibleTime:0").strip()

    runs = [scheduler.submit("heavy", AT_FIRST) for _ in range(2)]
    scheduler.until_running(*runs)
    later, untouched = scheduler.submit("heavy"), scheduler.submit("heavy")
    for _ in range(3):
        jobs = one_pass()
        assert not jobs[later].kept, "what stands there is ours"
    slurm.run("scontrol", "update", f"JobId={later}", f"StartTime=now+{scheduler.shared.wait_s + 25}")
    stands = begins(later)
    for _ in range(3):
        jobs = one_pass()
        assert "its begin time to" in jobs[later].kept[Kept.START]
        assert not jobs[untouched].kept
    assert begins(later) == stands
    assert restore(scheduler.adapter, touched).complete
    assert begins(later) == stands
