"""Shared partitions beside a Slurm in memory that starts every job that may start wherever it fits."""

import random
from dataclasses import dataclass, field, replace

import pytest

from live_scheduler.adapter import Change, RestrictToNode, StartAfter
from live_scheduler.cluster_state import ClusterState, LiveJob, LiveNode
from live_scheduler.deciding.decision import Decision, QueuePlace
from live_scheduler.live_settings import LiveSettings, Mode
from live_scheduler.slurm.shared_partitions import NEW_JOBS_WAIT_S, SharedPartitions

SETTINGS = LiveSettings("c", Mode.CONTROL, shared_partitions=("shared",))
NODES = ("s1", "s2", "s3")
SHARDS = 2
PASS_S = 2.0


@dataclass
class ShardsOnly:
    """A cluster of one-GPU nodes with two shards each."""

    now_s: float = 1_700_000_000.0
    jobs: dict[str, LiveJob] = field(default_factory=dict)
    _ids: int = 0

    def submit(self, *, plugin: bool = True, **facts: object) -> str:
        self._ids += 1
        job = LiveJob(str(self._ids), "shared", "shared", 1, self.now_s, shares_gpus=True)
        begin_s = self.now_s + NEW_JOBS_WAIT_S if plugin else None
        self.jobs[job.job_id] = replace(job, begin_time_s=begin_s, **facts)  # type: ignore[arg-type]
        return job.job_id

    def on(self, node: str) -> list[LiveJob]:
        return [job for job in self.jobs.values() if job.gpus_on == ((node, 1),)]

    def schedule(self) -> None:
        """Start what may start, the fullest nodes first."""
        for job in list(self.jobs.values()):
            if not job.waiting or job.held or (job.begin_time_s or 0.0) > self.now_s:
                continue
            nodes = [job.pinned_to] if job.pinned_to else sorted(NODES, key=lambda name: -len(self.on(name)))
            node = next((name for name in nodes if len(self.on(name)) < SHARDS), None)
            if node is not None:
                run = {"start_time_s": self.now_s, "gpus_on": ((node, 1),)}
                self.jobs[job.job_id] = replace(job, **run)  # type: ignore[arg-type]

    def nodes(self) -> tuple[LiveNode, ...]:
        return tuple(LiveNode(name, 1, min(1, len(self.on(name))), True, ("shared",)) for name in NODES)

    def reading(self, nodes: tuple[LiveNode, ...]) -> ClusterState:
        """Jobs as they are now, with nodes as they were read a moment before."""
        jobs = [
            replace(job, waits_for="BeginTime")
            if job.waiting and (job.begin_time_s or 0.0) > self.now_s
            else job
            for job in self.jobs.values()
        ]
        return ClusterState(self.now_s, tuple(jobs), nodes)

    def apply(self, changes: list[Change]) -> None:
        for change in changes:
            job = self.jobs[change.job_id]
            assert job.waiting
            assert not job.held
            if isinstance(change, StartAfter):
                self.jobs[change.job_id] = replace(job, begin_time_s=self.now_s + change.delay_s)
            else:
                assert isinstance(change, RestrictToNode)
                self.jobs[change.job_id] = replace(job, pinned_to=change.node or "")


def some_decision(cluster: ClusterState, dice: random.Random) -> Decision:
    """Waiting jobs, in any order; some start, alone or beside a job that runs alone."""
    eligible = [job for job in cluster.jobs if job.eligible]
    dice.shuffle(eligible)
    running = [job.job_id for job in cluster.jobs if not job.waiting]
    places = [
        QueuePlace(
            job.job_id,
            "shared",
            at,
            dice.random() < 0.6,
            60.0,
            (at,),
            partner=dice.choice(running) if running and dice.random() < 0.5 else None,
        )
        for at, job in enumerate(eligible, start=1)
    ]
    return Decision(cluster.at_s, "r", 1, "lucid", tuple(places), (), {}, 0.0)


@pytest.mark.parametrize("hundred", range(3))
def test_nobody_meets_whom_the_policy_did_not_choose_and_nobody_waits_for_ever(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        play(random.Random(seed))


def play(dice: random.Random) -> None:
    """Events: a submission, an end, a pass, or nothing for a pass's time; Slurm schedules in between."""
    cluster = ShardsOnly()
    shared = SharedPartitions(SETTINGS, monotonic=lambda: cluster.now_s)
    chosen: set[frozenset[str]] = set()
    for _ in range(100):
        event = dice.choice(("submission", "end", "pass", "pass", "nothing"))
        if event == "submission":
            cluster.submit()
        elif event == "end" and (running := [job for job in cluster.jobs.values() if not job.waiting]):
            del cluster.jobs[dice.choice(running).job_id]
        elif event in ("pass", "nothing"):
            cluster.now_s += PASS_S
        if dice.random() < 0.5:
            cluster.schedule()
        # A daemon makes its passes; twice what it has is more than a late one takes.
        late = any(
            job.waiting and not job.pinned_to and (job.begin_time_s or 0.0) <= cluster.now_s + 2 * PASS_S
            for job in cluster.jobs.values()
        )
        if event == "pass" or late:
            nodes = cluster.nodes()
            if dice.random() < 0.5:  # between reading nodes and jobs
                cluster.schedule()
            state = shared.seen(cluster.reading(nodes))
            decision = some_decision(state, dice)
            for change in (changes := shared.changes(decision, state)):
                place = decision.by_id.get(change.job_id)
                if isinstance(change, RestrictToNode) and change.node and place and place.partner:
                    chosen.add(frozenset((change.job_id, place.partner)))
            cluster.apply(changes)
        for name in NODES:
            there = [job.job_id for job in cluster.on(name)]
            assert len(there) <= 1 or frozenset(there) in chosen
    # The daemon is gone: a job that finds a shard starts, after what is left of the last begin time.
    cluster.now_s += max(shared.wait_s, NEW_JOBS_WAIT_S) + 1
    cluster.schedule()
    for job in cluster.jobs.values():
        nodes_of = [job.pinned_to] if job.pinned_to else NODES
        assert not job.waiting or all(len(cluster.on(name)) == SHARDS for name in nodes_of)
