"""The artifacts' rule sets against a plain replay of their rules, second by second.

The replay below knows no events, no heap and no free-GPU buckets: it advances a clock by one second and does
what the rules say. Whatever the engine saves must not show.
"""

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.artifact_rules.pair_speed_rules import PairsInOrder
from simulator.cluster.spec import ClusterSpec
from simulator.replay import simulate
from simulator.scenario.rules import load_rules
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job, JobProfile
from simulator.workload.workload import Workload

NODES = {"a": 5, "b": 2}
SIZES = {"a": (1, 1, 1, 2, 3, 4, 5, 8, 8, 12, 16, 20, 24), "b": (1, 1, 2, 4, 8, 12, 16)}
OVERHEADS = {"lucid-artifact": (40, 40, 60), "helios-artifact": (7, 30, 60)}
SLOW_KINDS = ("VGG/x/1/0", "LSTM/x/1/1", "DCGAN/x/1/0")
KINDS = (*SLOW_KINDS, "BERT/x/1/0")  # the artifact runs pairs with BERT at full speed
THOUSANDTHS = 1000


class Clock:
    """One virtual cluster, replayed a second at a time. Work left is kept in thousandths of a second."""

    def __init__(self, jobs, nodes):
        self.jobs = [{**job, "left": job["duration"] * THOUSANDTHS, "attained": 0} for job in jobs]
        for job in self.jobs:
            job.update(start=None, end=None, waits_since=None, queued=0, preempted=0, speed=THOUSANDTHS)
            job.update(alone=True, host=None, guest=None)
        self.free = [8] * nodes
        self.nodes = nodes
        self.now = 0
        self.queue, self.running = [], []

    def place(self, gpus):
        if sum(self.free) < gpus:
            return None
        if gpus <= 8:
            fits = [(free, node) for node, free in enumerate(self.free) if free >= gpus]
            return [(min(fits)[1], gpus)] if fits else None
        order = sorted((node for node in range(self.nodes) if self.free[node]), key=lambda n: -self.free[n])
        found = []
        for node in order:
            wanted = min(8, gpus)
            if self.free[node] < wanted:
                return None
            found.append((node, wanted))
            gpus -= wanted
            if not gpus:
                return found
        return None

    def start(self, job, place):
        for node, gpus in place:
            self.free[node] -= gpus
        self.run(job, place)

    def run(self, job, place):
        job["place"] = place
        job["queued"] += self.now - job["waits_since"]
        if job["start"] is None:
            job["start"] = self.now
        self.queue.remove(job)
        self.running.append(job)

    def stop(self, job):
        self.running.remove(job)
        partner = job["guest"] or job["host"]
        if partner is None:
            for node, gpus in job["place"]:
                self.free[node] += gpus
        elif job["guest"] is not None:  # the first of the pair goes: the other is left as it is
            partner["host"] = None
        else:
            partner.update(guest=None, alone=True, speed=THOUSANDTHS)

    def arrive(self):
        for job in self.jobs:
            if job["submit"] == self.now:
                job["waits_since"] = self.now
                self.queue.append(job)

    def replay(self, tick):
        while any(job["end"] is None for job in self.jobs):
            tick(self)
            self.now += 1
            assert self.now < 100_000
        return self.jobs


def stop_at_first_misfit(clock, order):
    for job in order:
        place = clock.place(job["gpus"])
        if place is None:
            return
        clock.start(job, place)


def without_preemption(key, fresh_key=None):
    def tick(clock):
        for job in list(clock.running):
            if clock.now == job["start"] + job["duration"]:
                job["end"] = clock.now
                clock.stop(job)
        clock.arrive()
        fresh = fresh_key is not None and all(job["submit"] == clock.now for job in clock.queue)
        stop_at_first_misfit(clock, sorted(clock.queue, key=fresh_key if fresh else key))

    return tick


def work(clock):
    """Runs end at the first second at which nothing was left to do a second ago."""
    for job in list(clock.running):
        if job["left"] <= 0:
            job["end"] = clock.now
            clock.stop(job)
        else:
            job["left"] -= job["speed"]
            job["attained"] += 1
    clock.arrive()


def with_preemption(ordered, overheads, every=1):
    def tick(clock):
        work(clock)
        if clock.now % every:
            return
        quota = clock.nodes * 8
        chosen, evicted = [], []
        for job in ordered(clock):
            if job["gpus"] <= quota:
                quota -= job["gpus"]
                if job in clock.queue:
                    chosen.append(job)
            elif job in clock.running:
                evicted.append(job)
        for job in evicted:
            clock.stop(job)
            overhead = (
                overheads[0] if job["gpus"] == 1 else overheads[1] if job["gpus"] <= 8 else overheads[2]
            )
            job["left"] += overhead * THOUSANDTHS
            job["preempted"] += 1
            job["waits_since"] = clock.now
            clock.queue.append(job)
        for job in chosen:
            place = clock.place(job["gpus"])
            if place is not None:
                clock.start(job, place)

    return tick


def by_remaining(clock):
    return sorted([*clock.queue, *clock.running], key=lambda job: job["left"])


def by_attained(clock):
    return sorted(
        [*clock.running, *clock.queue],
        key=lambda job: (job["attained"] * job["gpus"] > 18_000, job["submit"]),
    )


def packing(pairs):
    def speeds(new, old):
        if new["kind"].startswith("BERT") or old["kind"].startswith("BERT"):
            return THOUSANDTHS, THOUSANDTHS
        if (new["kind"], old["kind"]) in pairs:
            return pairs[new["kind"], old["kind"]]
        return pairs[old["kind"], new["kind"]][::-1]

    def allowed(new, old):
        return (
            old["alone"]
            and old["gpus"] == new["gpus"] <= 8
            and old["memory"] + new["memory"] < 24_576
            and old["score"] + new["score"] <= 2
            and new["estimate"] <= 2 * old["estimate"]
        )

    def tick(clock):
        work(clock)
        for job in sorted(clock.queue, key=lambda job: job["estimate"] * job["gpus"]):
            partner = next((old for old in clock.running if allowed(job, old)), None)
            if partner is not None:
                job["speed"], partner["speed"] = speeds(job, partner)
                job.update(alone=False, host=partner)
                partner.update(alone=False, guest=job)
                clock.run(job, partner["place"])
                continue
            place = clock.place(job["gpus"])
            if place is not None:
                clock.start(job, place)

    return tick


def ticks(policy, rules, jobs, pairs):
    """Replay all virtual clusters; return job_id -> (start, end, queued, preemptions)."""
    found = {}
    nodes = dict(NODES)
    waited = dict.fromkeys((job["id"] for job in jobs), 0)
    if policy == "lucid":
        nodes["a"] -= 2
        small = [{**job, "duration": min(80, job["duration"])} for job in jobs if job["gpus"] <= 4]
        for run in Clock(small, 2).replay(without_preemption(lambda job: job["gpus"])):
            waited[run["id"]] = run["queued"]
            if run["duration"] < 80 or next(j for j in jobs if j["id"] == run["id"])["duration"] == 80:
                found[run["id"]] = (run["start"], run["end"], run["queued"], 0)
        jobs = [job for job in jobs if job["id"] not in found]
    tick = {
        "fifo": lambda: without_preemption(lambda job: job["submit"]),
        "sjf": lambda: without_preemption(lambda job: job["duration"]),
        "qssf": lambda: without_preemption(
            lambda job: (job["estimate"] * job["gpus"], job["gpus"]), lambda job: job["gpus"]
        ),
        "srtf": lambda: with_preemption(by_remaining, OVERHEADS[rules]),
        "tiresias": lambda: with_preemption(by_attained, OVERHEADS[rules], every=60),
        "lucid": lambda: packing(pairs),
    }[policy]
    for name, size in nodes.items():
        for job in Clock([job for job in jobs if job["vc"] == name], size).replay(tick()):
            found[job["id"]] = (job["start"], job["end"], job["queued"] + waited[job["id"]], job["preempted"])
    return found


def engine(policy, rules, jobs, pairs):
    workload = Workload(
        tuple(
            Job(
                job["id"],
                job["vc"],
                None,
                job["gpus"],
                float(job["submit"]),
                float(job["duration"]),
                float(job["estimate"]),
                order=i,
                profile=JobProfile(80.0, 50.0, float(job["memory"]), False, job["kind"], job["score"]),
            )
            for i, job in enumerate(jobs)
        ),
        {},
    )
    table = pd.DataFrame(
        [(one, x / THOUSANDTHS, other, y / THOUSANDTHS) for (one, other), (x, y) in pairs.items()],
        columns=["job_type_1", "speed_1", "job_type_2", "speed_2"],
    )
    result = simulate(
        Scenario(workload, ClusterSpec(NODES, 8), rules=load_rules(rules), colocation=PairsInOrder(table)),
        policy,
    )
    columns = ("job_id", "first_start_time_s", "end_time_s", "queuing_delay_s", "preemptions")
    return {row[0]: row[1:] for row in zip(*(result.jobs[column] for column in columns), strict=True)}


@st.composite
def workloads(draw, shortest=1, estimates=(1, 10, 10, 100)):
    """Up to 30 jobs in bursts: same seconds, awkward sizes, some far longer than others."""
    count = draw(st.integers(1, 30))
    gaps = draw(st.lists(st.sampled_from((0, 0, 0, 1, 7, 60)), min_size=count, max_size=count))
    rows, now = [], 0
    for i in range(count):
        now += gaps[i] if i else 0
        duration = draw(
            st.one_of(st.integers(shortest, 12), st.integers(shortest, 200), st.integers(300, 2500))
        )
        vc = draw(st.sampled_from("aaab"))
        rows.append(
            {
                "id": f"j{i}",
                "vc": vc,
                "gpus": draw(st.sampled_from(SIZES[vc])),
                "submit": now,
                "duration": duration,
                "estimate": draw(st.sampled_from((*estimates, duration + 1))),
                "kind": draw(st.sampled_from(KINDS)),
                "memory": draw(st.sampled_from((4_000, 12_000, 12_288, 20_000))),
                "score": draw(st.sampled_from((0, 1, 2))),
            }
        )
    return rows


@st.composite
def pair_speeds(draw):
    thousandths = st.integers(400, 1500)
    return {
        (one, other): (draw(thousandths), draw(thousandths))
        for i, one in enumerate(SLOW_KINDS)
        for other in SLOW_KINDS[i:]
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "rules"),
    [
        *((policy, "lucid-artifact") for policy in ("fifo", "sjf", "qssf")),
        *((policy, "helios-artifact") for policy in ("fifo", "sjf", "qssf")),
    ],
)
@settings(max_examples=12, deadline=None)
@given(jobs=workloads())
def test_policies_without_preemption_are_what_the_ticks_say(policy, rules, jobs):
    assert engine(policy, rules, jobs, {}) == ticks(policy, rules, jobs, {})


@settings(max_examples=12, deadline=None)
@given(jobs=workloads(estimates=(-2, -1, -1, 1, 10)))
def test_estimates_below_zero_are_what_the_ticks_say(jobs):
    assert engine("qssf", "helios-artifact", jobs, {}) == ticks("qssf", "helios-artifact", jobs, {})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "rules"),
    [("srtf", "lucid-artifact"), ("srtf", "helios-artifact"), ("tiresias", "lucid-artifact")],
)
@settings(max_examples=12, deadline=None)
@given(jobs=workloads(shortest=0))
def test_policies_with_preemption_are_what_the_ticks_say(policy, rules, jobs):
    assert engine(policy, rules, jobs, {}) == ticks(policy, rules, jobs, {})


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(jobs=workloads(), pairs=pair_speeds())
def test_the_artifacts_lucid_is_what_the_ticks_say(jobs, pairs):
    assert engine("lucid", "lucid-artifact", jobs, pairs) == ticks("lucid", "lucid-artifact", jobs, pairs)
