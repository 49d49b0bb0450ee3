"""Sharing GPUs: measured speeds, the fall-back, and what the engine does with them."""

import numpy as np
import pandas as pd
import pytest

from foundation.errors import BadInputError
from simulator.actions import Colocate, Start
from simulator.cluster.spec import ClusterSpec
from simulator.policies.fifo import Fifo
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.colocation import MeasuredPairs, SummedUtilisation
from simulator.workload.job import Job, JobProfile
from simulator.workload.workload import Workload


def profile(job_type: str, util: float = 50, mem_util: float = 20) -> JobProfile:
    return JobProfile(util, mem_util, 1_000, job_type=job_type, sharing_score=0)


PAIRS = pd.DataFrame(
    {"job_type_1": ["A", "B"], "speed_1": [0.5, 0.9], "job_type_2": ["B", "B"], "speed_2": [0.8, 0.7]}
)


def test_measured_speeds_hold_in_both_orders():
    pairs = MeasuredPairs(PAIRS)
    assert pairs.speeds(profile("A"), profile("B")) == (0.5, 0.8)
    assert pairs.speeds(profile("B"), profile("A")) == (0.8, 0.5)
    assert pairs.speeds(profile("B"), profile("B")) == pytest.approx((0.8, 0.8))


def test_unmeasured_pairs_slow_down_by_their_summed_utilisation():
    for model in (MeasuredPairs(PAIRS), SummedUtilisation()):
        assert model.speeds(profile("X", 60), profile("Y", 40)) == (1.0, 1.0)
        assert model.speeds(profile("X", 60), profile("Y", 65)) == (0.875, 0.875)
        assert model.speeds(profile("X", 100), profile("Y", 100)) == (0.5, 0.5)
        assert model.speeds(None, profile("Y", 30)) == (0.85, 0.85)
        assert model.speeds(None, None) == (0.5, 0.5)


def test_nobody_runs_faster_beside_another_than_alone_unless_asked_for():
    fast = PAIRS.assign(speed_1=[1.3, 0.9])
    assert MeasuredPairs(fast).speeds(profile("A"), profile("B")) == (1.0, 0.8)
    assert MeasuredPairs(fast, speed_max=None).speeds(profile("A"), profile("B")) == (1.3, 0.8)


@pytest.mark.parametrize("speed", [0.0, -1.0, np.nan, np.inf])
def test_an_impossible_speed_is_refused(speed):
    with pytest.raises(BadInputError, match="speed"):
        MeasuredPairs(PAIRS.assign(speed_2=speed))


class PackEverything(Fifo):
    """Packs each waiting job onto the first running job without a partner."""

    def decide(self, snapshot):
        actions = []
        for pool in snapshot.changed:
            plan = pool.plan()
            partners = [job for job in pool.running if job.partner is None]
            for job in pool.queue:
                placement = plan.place(job.gpus)
                if placement:
                    actions.append(Start(job, placement))
                elif partners:
                    actions.append(Colocate(job, partners.pop(0)))
        return actions


def test_jobs_progress_at_the_pairs_speeds_and_at_full_speed_alone():
    jobs = (
        Job("a", "vc", None, 1, 0, 100, order=0, profile=profile("A")),
        Job("b", "vc", None, 1, 20, 40, order=1, profile=profile("B")),
    )
    cluster = ClusterSpec.of_gpus(1, virtual_cluster="vc")
    result = simulate(
        Scenario(Workload(jobs, {}), cluster, colocation=MeasuredPairs(PAIRS)), PackEverything()
    )
    # b runs from 20 at 0.8: done at 70. a: 20 alone, 25 in 50 s at 0.5, the last 55 alone: done at 125.
    assert result.jobs["end_time_s"].tolist() == [125, 70]
    assert result.jobs["colocated_s"].tolist() == [50, 50]
    assert result.jobs["colocated"].all()
    assert result.summary["utilisation_pct"] == pytest.approx(100)


def test_the_first_of_a_pair_may_end_first_and_its_partner_recovers():
    """The Lucid artifact leaves this partner slow for good."""
    jobs = (
        Job("a", "vc", None, 1, 0, 10, order=0, profile=profile("A")),
        Job("b", "vc", None, 1, 0, 100, order=1, profile=profile("B")),
        Job("c", "vc", None, 1, 60, 8, order=2, profile=profile("B")),
    )
    cluster = ClusterSpec.of_gpus(1, virtual_cluster="vc")
    result = simulate(
        Scenario(Workload(jobs, {}), cluster, colocation=MeasuredPairs(PAIRS)), PackEverythingLater()
    )
    # a at 0.5 ends at 20; b did 16, then runs alone to 60 (56 done); c joins at 0.8 and ends at 70 (64 done).
    assert result.jobs["end_time_s"].tolist() == pytest.approx([20, 106, 70])


class PackEverythingLater(PackEverything):
    """Decides once more after a start at the same moment, so that a job can join one that just started."""

    def decide(self, snapshot):
        actions = super().decide(snapshot)
        pools = list(snapshot.changed)
        started = [action.job for action in actions if isinstance(action, Start)]
        for pool in pools:
            waiting = [job for job in pool.queue if all(job is not action.job for action in actions)]
            actions += [Colocate(job, partner) for job, partner in zip(waiting, started, strict=False)]
        return actions
