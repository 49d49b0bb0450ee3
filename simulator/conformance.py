"""What every policy must keep. `python -m simulator.conformance NAME` checks one.

A policy passes when, on workloads of several shapes,

- no GPU is given twice, except to a pair that was colocated on purpose; gangs are whole and in their pool;
- every job completes, once, with all of its work done; none starts early; time never runs back;
- the same workload gives the same schedule twice, also when it is asked at moments at which nothing happens:
  a policy with an order that changes in time says when, or that its rule is applied at events only;
- unless it is declared an oracle, no decision depends on how long an unfinished job will run;
- where it declares a bound on overtaking, a gang that smaller jobs would overtake for ever starts once it has
  waited for so long and what ran then has ended.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from math import inf
from random import Random
from typing import Any

import numpy as np
import pandas as pd

from foundation.errors import BadInputError
from simulator.actions import PolicyError
from simulator.cluster.changes import ClusterChange, NodeFailure, SizeChange
from simulator.cluster.placement import NOWHERE, lies_within
from simulator.cluster.shared_nodes import NodeShape, share_nodes
from simulator.cluster.spec import ClusterSpec
from simulator.engine.simulation import Simulation
from simulator.job_view import JobView, RunState
from simulator.policies.registry import load_policy
from simulator.policy import Policy
from simulator.results.result import SimulationResult
from simulator.scenario.agenda import EventKind
from simulator.scenario.rules import DEFAULT, Rules
from simulator.scenario.scenario import Scenario
from simulator.snapshot import ASLEEP, BOOTING, LENT, VACANT, NodePool
from simulator.work_audit import TOLERANCE_S, ConformanceError, WorkAudit
from simulator.workload.job import Job, JobProfile
from simulator.workload.speed_up import Elasticity, SpeedUp
from simulator.workload.workload import Workload

MOMENTS_IN_BETWEEN = 200
ROUNDING_S = 1e-3
SHAPES = ("quiet", "loaded", "burst", "gangs", "churn", "elastic")
SHARED = "shared"  # nodes of several sizes, which virtual clusters share (`Policy.unequal_nodes`)


class AuditedSimulation(Simulation):
    """A simulation that recounts everything from the jobs themselves after every step."""

    def run(self, until_s: float = inf) -> None:
        """Run step by step."""
        while self.step(until_s):
            pass

    def step(self, until_s: float = inf) -> bool:
        """Take a step, then compare the books with the facts."""
        before_s = self.now_s
        audit = self._work_audit()
        audit.look(before_s)
        if not super().step(until_s):
            return False
        audit.compare(before_s, self.now_s)
        if self.now_s < before_s:
            raise ConformanceError(f"{self.name}: time went back from {before_s} s to {self.now_s} s.")
        self._audit_gpus()
        states = [job.state for job in self.jobs]
        queued = sum(len(pool.queue) for pool in self.pools.values())
        running = sum(len(pool.running) for pool in self.pools.values())
        if queued != states.count(RunState.PENDING) or running != states.count(RunState.RUNNING):
            raise ConformanceError(f"{self.name}: a job was lost at {self.now_s} s.")
        return True

    def _work_audit(self) -> "WorkAudit":
        audit = getattr(self, "_audit", None)
        if audit is None:
            audit = self._audit = WorkAudit(self)
        return audit

    def _audit_gpus(self) -> None:
        for pool in self.pools.values():
            used = [0] * pool.free.nodes
            for job in pool.running:
                self._audit_job(job, pool)
                if job.counts_for_pair:
                    for node, gpus in job.placement or ():
                        used[node] += gpus
            for node, gpus in enumerate(used):
                size = pool.free.size_of(node)
                if gpus > size or pool.free.on_node(node) != size - gpus:
                    raise ConformanceError(
                        f"{self.name}: node {node} of {pool.name!r} has {size} GPUs, {gpus} in use and "
                        f"{pool.free.on_node(node)} free at {self.now_s} s."
                    )
            for node, reasons in pool.closed_nodes().items():
                if used[node] and not reasons.isdisjoint((ASLEEP, BOOTING, LENT, VACANT)):
                    raise ConformanceError(
                        f"{self.name}: node {node} of {pool.name!r} runs jobs, and is {sorted(reasons)} at "
                        f"{self.now_s} s."
                    )
            for guest, (home, node) in pool.guests.items():
                if LENT not in home.closed_nodes().get(node, ()):
                    raise ConformanceError(
                        f"{self.name}: node {guest} of {pool.name!r} is on loan, and node {node} of "
                        f"{home.name!r} is not lent at {self.now_s} s."
                    )

    def _audit_job(self, job: JobView, pool: NodePool) -> None:
        placement = job.placement or NOWHERE
        open_nodes = pool.masks.get(job.job.virtual_cluster)
        nodes = [node for node, _ in placement]
        fault = None
        held = placement.gpus
        if job.job.workers is not None:
            fault = self._fault_of_workers(job)
        elif not job.min_gpus <= held <= job.gpus or len(set(nodes)) != len(nodes):
            fault = f"holds {placement} for a gang of {job.gpus}"
        if job.first_start_time_s is None or job.first_start_time_s < job.submit_time_s:
            fault = "runs before its submission"
        elif job.pool != pool.name:
            fault = f"runs in {pool.name!r} and not in {job.pool!r}"
        elif not lies_within(placement, open_nodes):
            fault = f"runs on {placement}, nodes that are not all {job.job.virtual_cluster!r}'s"
        elif len(placement) > 1 and job.elastic is None and held <= pool.free.largest(open_nodes):
            fault = f"is split over {placement}, and one node could hold it"
        elif job.partner is not None and (
            job.partner.partner is not job or job.partner.placement != job.placement
        ):
            fault = f"shares GPUs with {job.partner!r}, which does not share them"
        if fault:
            raise ConformanceError(f"{self.name}: {job!r} {fault} at {self.now_s} s.")

    def _fault_of_workers(self, job: JobView) -> str | None:
        """Say what is wrong with a job's workers: its base is whole, and it is as fast as they make it."""
        placement, flexible = dict(job.placement or ()), dict(job.flexible)
        workers, service, pool = job.job.workers, self.lender, self.pools[job.pool]
        if workers is None or len(placement) != len(job.placement or ()):
            return f"holds {job.placement}, a node of which comes twice"
        base = total = 0.0
        for node, gpus in placement.items():
            loaned = service is not None and pool.is_lent_by(service.name, node)
            worth = workers.gpus_each * (service.loaned_workers_per_worker if loaned and service else 1)
            total += gpus / worth
            base += (gpus - flexible.get(node, 0)) / worth
        slack = TOLERANCE_S
        if (
            base < workers.least - slack
            or total > workers.most + slack
            or not flexible.keys() <= placement.keys()
        ):
            return f"holds {job.placement}, {job.flexible} of it for flexible workers"
        speed = self._work_audit().speed_of(job)
        return None if abs(job.speed - speed) <= slack else f"runs at a speed of {job.speed} and not {speed}"


def audited(scenario: Scenario, policy: Policy, *, name: str) -> SimulationResult:
    """Simulate under audit; raises ConformanceError or PolicyError."""
    simulation = AuditedSimulation(scenario, policy, name=name)
    simulation.run()
    result = simulation.result()
    check_work(simulation.jobs, name)
    return result


class InterruptedSimulation(AuditedSimulation):
    """Asks the policy about all pools at further moments, too, at which nothing happens."""

    def ask_at(self, moments_s: Iterable[float]) -> None:
        """Ask at these moments as well, now or later."""
        for at_s in moments_s:
            for pool in self.pools.values():
                self._agenda.push(at_s, EventKind.WAKE, pool)

    def _happen(self, kind: int, subject: Any, version: int) -> None:
        """Ask whether or not the policy had asked for it."""
        if kind == EventKind.WAKE:
            self._changed[subject] = None
        super()._happen(kind, subject, version)


def check_in_between(
    scenario: Scenario, make: Callable[[], Policy], undisturbed: pd.DataFrame, *, name: str
) -> None:
    """Ask at random moments besides: no job of the `undisturbed` schedule may start or end otherwise."""
    simulation = InterruptedSimulation(scenario, make(), name=name)
    random = Random("in between")  # noqa: S311  (not for secrets)
    last_s = float(undisturbed["end_time_s"].max())
    simulation.ask_at(random.uniform(0.0, last_s) for _ in range(MOMENTS_IN_BETWEEN))
    simulation.run()
    asked = simulation.result().jobs
    for column in ("first_start_time_s", "end_time_s"):
        # Work that is summed up in more pieces is rounded otherwise.
        same = np.isclose(asked[column], undisturbed[column], rtol=0, atol=ROUNDING_S, equal_nan=True)
        if not same.all():
            row = int(np.flatnonzero(~same)[0])
            raise ConformanceError(
                f"{name} decides otherwise when it is asked in between: {column} of job "
                f"{asked['job_id'].iloc[row]!r} is {asked[column].iloc[row]} and not "
                f"{undisturbed[column].iloc[row]}.",
                remedy="Say when its order changes (next_change_s), or declare at_events_only if its rule is "
                "applied only when something happens.",
            )


def check_work(jobs: list[JobView], name: str) -> None:
    """Check that each job's time adds up: pending, work, overheads, lost runs and colocation's slowdown."""
    for job in jobs:
        if job.state is not RunState.COMPLETED:
            continue
        ran_s = (job.end_time_s or 0.0) - job.submit_time_s - job.queuing_delay_s
        least_s = job.job.duration_s + job.overhead_s + job.lost_s
        slack_s = TOLERANCE_S * max(1.0, ran_s)
        if abs(ran_s - job.attained_s) > slack_s:
            fault = f"held GPUs for {job.attained_s} s and ran for {ran_s} s"
        elif job.elastic is not None:  # `WorkAudit` has followed its work
            continue
        elif not job.was_colocated and abs(ran_s - least_s) > slack_s:
            fault = f"ran for {ran_s} s and had {least_s} s to do"
        elif job.shareable and ran_s - job.colocated_s > least_s + slack_s:
            fault = f"ran alone for {ran_s - job.colocated_s} s and had only {least_s} s to do"
        else:
            continue
        raise ConformanceError(f"{name}: {job!r} {fault}.")


def sample_workload(shape: str, seed: int, jobs: int = 120) -> tuple[Workload, ClusterSpec]:
    """Make a small workload of a shape, with profiles and noisy estimates; the same for the same seed.

    In "elastic" most jobs can do with fewer GPUs than they ask for. In "churn" users withdraw jobs, some jobs
    need CPU cores only and some change their needs. `sample_changes` has the nodes that come, leave and fail
    meanwhile.
    """
    churn = shape == "churn"
    random = Random(f"{shape} {seed}")  # noqa: S311  (not for secrets)
    cluster = ClusterSpec({"a": 12, "b": 8, "c": 1}, 8, cpu_cores_per_node=8 if churn else 0)
    if shape == SHARED:
        cluster = _shared_cluster()
    gaps_s = {"quiet": 600, "loaded": 20, "burst": 1, "gangs": 60, "churn": 40, "elastic": 25, SHARED: 30}
    gap_s = gaps_s[shape]
    sizes = (8, 16, 20, 32, 40) if shape == "gangs" else (1, 1, 1, 2, 3, 4, 8, 8, 16)
    now_s = 0
    rows = []
    for i in range(jobs):
        now_s += 0 if random.random() < 0.2 else int(random.expovariate(1 / gap_s))
        virtual_cluster = random.choice("aaabbc")
        gpus = min(random.choice(sizes), 8 if virtual_cluster == "c" else 64)
        duration_s = 0 if random.random() < 0.02 else int(random.lognormvariate(6, 1.8))
        profile = JobProfile(
            gpu_util_pct=random.uniform(5, 100),
            gpu_mem_util_pct=random.uniform(5, 80),
            gpu_mem_mib=float(random.randint(1_000, 20_000)),
            job_type=f"type{random.randint(0, 5)}",
            sharing_score=random.randint(0, 2),
        )
        rows.append(
            Job(
                job_id=f"{shape}-{i}",
                virtual_cluster=virtual_cluster,
                user=f"user{random.randint(0, 7)}",
                gpus=gpus,
                submit_time_s=float(now_s),
                duration_s=float(duration_s),
                estimated_duration_s=float(max(1, int(duration_s * random.lognormvariate(0, 1)))),
                order=i,
                profile=profile if random.random() < 0.9 else None,
                template=profile.job_type,
            )
        )
        if churn:
            rows[-1] = _unruly(rows[-1], random)
        elif shape == "elastic" and random.random() < 0.7:
            rows[-1] = _elastic(rows[-1], random)
    first_s = rows[0].submit_time_s
    return Workload(
        tuple(replace(row, submit_time_s=row.submit_time_s - first_s) for row in rows), {}
    ), cluster


def _unruly(job: Job, random: Random) -> Job:
    """Have a job withdrawn, need CPU cores only, or change its needs, at random."""
    draw = random.random()
    if draw < 0.2:
        return replace(job, cancel_time_s=job.submit_time_s + random.randint(0, 2_000), withdrawn=True)
    if draw < 0.35:
        return replace(job, gpus=0, cpus=random.randint(1, 8), profile=None)
    if draw < 0.6 and job.profile is not None:
        later = replace(job.profile, gpu_util_pct=random.uniform(5, 100))
        return replace(job, phase=(random.uniform(0, 1.2) * job.duration_s, later))
    return replace(job, long_cold_start=draw > 0.95)


def _elastic(job: Job, random: Random) -> Job:
    """Have a job scale in its own way, not always well, from none, one, some or all of its GPUs on."""
    speeds = [0.0, 1.0]
    while len(speeds) <= job.gpus:
        speeds.append(speeds[-1] + random.uniform(-0.05, 1.0))
    speed_up = SpeedUp(tuple(speeds))
    least = random.choice((0, 1, 1, job.gpus // 2, job.gpus))
    elasticity = Elasticity(job.duration_s * speed_up.at(job.gpus), speed_up, least)
    if random.random() < 0.05:
        job = replace(job, cancel_time_s=job.submit_time_s + 900, withdrawn=True)
    return replace(job, elasticity=elasticity)


def _shared_cluster() -> ClusterSpec:
    shapes = [
        NodeShape(("a",), 8, 4),
        NodeShape(("a", "b"), 4, 3),
        NodeShape(("a", "b"), 8, 2),
        NodeShape(("b",), 4, 3),
        NodeShape(("b",), 2, 2),
        NodeShape(("c",), 8, 1),
    ]
    pools, shared = share_nodes(shapes)
    return ClusterSpec({name: len(sizes) for name, sizes in pools.items()}, 8, node_gpus=pools, shared=shared)


def sample_changes(shape: str, seed: int, cluster: ClusterSpec) -> tuple[ClusterChange, ...]:
    """Make what happens to the nodes under `sample_workload` of the same shape and seed."""
    if shape not in ("churn", "elastic", SHARED):
        return ()
    random = Random(f"changes {seed}")  # noqa: S311  (not for secrets)
    changes: list[ClusterChange] = []
    for virtual_cluster, nodes in cluster.virtual_clusters.items():
        for _ in range(random.randint(0, 4)):
            at_s = float(random.randint(0, 5_000))
            changes.append(
                NodeFailure(at_s, virtual_cluster, random.randrange(nodes), random.randint(1, 3_000))
            )
        for _ in range(random.randint(0, 2) if shape != SHARED else 0):
            size = random.randint(nodes, 2 * nodes) if random.random() < 0.5 else random.randint(1, nodes)
            changes.append(SizeChange(float(random.randint(0, 5_000)), virtual_cluster, size))
    return tuple(change for change in changes if isinstance(change, SizeChange)) + tuple(
        change for change in changes if isinstance(change, NodeFailure)
    )


def check_policy(make: Callable[[], Policy], name: str, *, rules: Rules = DEFAULT) -> Iterator[str]:
    """Yield the name of each check that a policy passed; raises at the first that it does not."""
    for shape in (*SHAPES, SHARED) if make().unequal_nodes else SHAPES:
        workload, cluster = sample_workload(shape, seed=1)
        scenario = Scenario(workload, cluster, rules=rules)
        changing = replace(scenario, changes=sample_changes(shape, 1, cluster))
        first = audited(changing, make(), name=name).jobs
        yield f"{shape}: capacity, gangs, conservation"
        again = audited(changing, make(), name=name).jobs
        pd.testing.assert_frame_equal(first, again)
        yield f"{shape}: the same schedule twice"
        policy = make()
        if not policy.at_events_only:
            check_in_between(changing, make, first, name=name)
            yield f"{shape}: the same schedule when asked in between"
        if not policy.oracle:
            check_causality(scenario, make, name=name)
            yield f"{shape}: no knowledge of the future"
    if make().overtaking_bound_s < inf:
        check_overtaking(make, name=name, rules=rules)
        yield "overtaken: no job starves"


def check_causality(scenario: Scenario, make: Callable[[], Policy], *, name: str) -> None:
    """Turn the lengths of the jobs that are unfinished at the median end around: nothing before may change.

    What was the shortest of them becomes the longest, and each runs for longer than it did, so that at the
    median end the same jobs are unfinished.
    """
    workload = scenario.workload
    before = audited(scenario, make(), name=name).jobs
    moment_s = float(before["end_time_s"].median())
    longest_s = 2 * max(job.duration_s for job in workload.jobs) + 1_000
    turned = tuple(
        job.lasting(longest_s - job.duration_s) if end_s > moment_s else job
        for job, end_s in zip(workload.jobs, before["end_time_s"], strict=True)
    )
    after = audited(replace(scenario, workload=replace(workload, jobs=turned)), make(), name=name).jobs
    early = (before["first_start_time_s"] < moment_s) | (after["first_start_time_s"] < moment_s)
    moved = early & (before["first_start_time_s"] != after["first_start_time_s"])
    if moved.any():
        raise ConformanceError(
            f"{name} knows the future: job {before['job_id'][moved].iloc[0]!r} starts otherwise before "
            f"{moment_s} s when jobs that end later run longer.",
            remedy="Declare it an oracle, or use estimates.",
        )


def overtaken_gang(bound_s: float, seed: int = 1) -> tuple[Workload, ClusterSpec]:
    """Make a gang of a whole cluster, and small jobs that keep it busy for far longer than `bound_s`."""
    random = Random(f"overtaken {seed}")  # noqa: S311  (not for secrets)
    cluster = ClusterSpec({"a": 2}, 8)
    gpus = cluster.nodes * cluster.gpus_per_node
    longest_s = max(60.0, bound_s / 20)
    jobs = [Job("gang", "a", "user", gpus, 0.0, 100.0, estimated_duration_s=longest_s, order=0)]
    work_s = 0.0
    while work_s < gpus * (bound_s + 10 * longest_s):
        duration_s = random.uniform(longest_s / 4, longest_s)
        wanted = random.choice((1, 1, 2, 4))
        # One more than the cluster could serve, at any time; estimates are wrong either way, limits hold.
        job = replace(
            jobs[0],
            job_id=f"small-{len(jobs)}",
            gpus=wanted,
            submit_time_s=max(0.0, work_s / gpus - longest_s),
            duration_s=duration_s,
            estimated_duration_s=duration_s * random.lognormvariate(-2, 1),
            time_limit_s=longest_s,
            order=len(jobs),
        )
        jobs.append(job)
        work_s += wanted * duration_s
    first, *others = jobs
    waiting = replace(first, submit_time_s=1.0)
    in_order = sorted([waiting, *others], key=lambda job: job.submit_time_s)
    return Workload(tuple(replace(job, order=i) for i, job in enumerate(in_order)), {}), cluster


def check_overtaking(make: Callable[[], Policy], *, name: str, rules: Rules = DEFAULT) -> None:
    """Have small jobs come for ever: a gang must start after the bound and twice the longest run.

    Once for the jobs that ran when it was overdue, and once for those that were let in beside them because
    they were believed to end as soon.
    """
    bound_s = make().overtaking_bound_s
    workload, cluster = overtaken_gang(bound_s)
    table = audited(Scenario(workload, cluster, rules=rules), make(), name=name).jobs.set_index("job_id")
    longest_s = float((table["end_time_s"] - table["first_start_time_s"]).max())
    waited_s = float(table["queuing_delay_s"].loc["gang"])
    if waited_s > bound_s + 2 * longest_s:
        raise ConformanceError(
            f"{name} lets a gang wait for {waited_s:.0f} s, though its bound on overtaking is "
            f"{bound_s:.0f} s and no job runs for longer than {longest_s:.0f} s.",
            remedy="Keep GPUs back for the job that is overdue (simulator.mechanisms.overtaking_bound).",
        )


def main(names: list[str]) -> int:
    """Check the named policies with their default settings; return 1 where one fails, 2 without a name."""
    if not names:
        print("Name the policies to check: python -m simulator.conformance NAME ...", file=sys.stderr)
        return 2
    failed = False
    for name in names:
        try:
            for passed in check_policy(lambda name=name: load_policy(name), name):  # type: ignore[misc]
                print(f"{name}  {passed}", flush=True)
        except (ConformanceError, PolicyError, BadInputError) as error:
            print(f"{name}  FAILED: {error}", flush=True)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
