"""Packing by predicted speeds of pairs, instead of summed sharing scores."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.artifact_rules.lucid_ways import ArtifactSettings
from foundation.errors import BadInputError
from simulator.actions import Colocate
from simulator.cluster.spec import ClusterSpec
from simulator.conformance import AuditedSimulation, sample_workload
from simulator.policies.lucid import Lucid, LucidSettings
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.snapshot import Snapshot
from simulator.workload.colocation import BelievedPairs, SummedUtilisation
from simulator.workload.job import Job, JobProfile
from simulator.workload.workload import Workload

NODE = ClusterSpec({"vc": 1}, 8)
BY_UTILISATION = BelievedPairs(SummedUtilisation(), 0.9)


class SpeedsByName:
    """Pairs of these job types run at these speeds, others at full speed."""

    def __init__(self, **speeds: tuple[float, float]) -> None:
        self._speeds = speeds

    def speeds(self, first: JobProfile | None, second: JobProfile | None) -> tuple[float, float]:
        assert first is not None
        assert second is not None
        return self._speeds.get("".join(sorted((first.job_type or "") + (second.job_type or ""))), (1.0, 1.0))


def job(i: int, job_type: str, *, score: int | None = None, submit: float = 0.0) -> Job:
    profile = JobProfile(30.0, 10.0, 5_000.0, job_type=job_type, sharing_score=score)
    return Job(f"j{i}", "vc", "u", 8, submit, 1_000.0, 1_000.0, i, profile)


def colocated(jobs: list[Job], speeds: SpeedsByName | None, *, least: float = 0.88, **chosen: object) -> list:
    policy = Lucid(LucidSettings(profiling_nodes=0, packs_unmeasured=True, **chosen))
    believed = None if speeds is None else BelievedPairs(speeds, least)
    result = simulate(Scenario(Workload(tuple(jobs), {}), NODE, believed_pairs=believed), policy)
    return result.jobs["colocated"].tolist()


PAIR = [job(0, "a", score=2), job(1, "b", score=2, submit=1.0)]


def test_scores_are_the_default_whatever_is_believed_of_pairs() -> None:
    assert colocated(PAIR, SpeedsByName()) == [False, False]
    assert colocated(PAIR, SpeedsByName(), packing_rule="pairs") == [True, True]


def test_jobs_need_no_score() -> None:
    assert (
        colocated([job(0, "a"), job(1, "b", submit=1.0)], SpeedsByName(), packing_rule="pairs") == [True] * 2
    )


@pytest.mark.parametrize(
    ("speeds", "chosen", "shares"),
    [
        ((0.80, 0.96), {}, True),
        ((0.80, 0.94), {}, False),
        ((0.80, 0.94), {"mean_speed_min": 0.85}, True),
        ((0.80, 0.96), {"slower_speed_min": 0.85}, False),
        ((0.90, 0.96), {"slower_speed_min": 0.85}, True),
        ((0.90, 0.96), {"sharing": "apathetic"}, False),
        ((0.95, 0.96), {"sharing": "apathetic"}, True),
        ((0.90, 0.96), {"sharing": "apathetic", "apathetic_speed_min": 0.9}, True),
        ((1.00, 1.00), {"sharing": "none"}, False),
    ],
)
def test_pairs_share_from_the_predicted_speeds_on(speeds, chosen, shares: bool) -> None:
    assert colocated(PAIR, SpeedsByName(ab=speeds), packing_rule="pairs", **chosen) == [shares, shares]


def test_the_right_one_of_two_partners_is_taken() -> None:
    half = [
        Job(f"j{i}", "vc", "u", 4, float(i // 2), 1_000.0, 1_000.0, i, job(i, name).profile)
        for i, name in enumerate("abc")
    ]
    assert colocated(half, SpeedsByName(ac=(0.5, 0.6)), packing_rule="pairs") == [False, True, True]
    assert colocated(half, SpeedsByName(bc=(0.5, 0.6)), packing_rule="pairs") == [True, False, True]


def test_without_predictions_the_rule_is_refused() -> None:
    with pytest.raises(BadInputError, match="no model predicts the speeds of pairs"):
        colocated(PAIR, None, packing_rule="pairs")
    with pytest.raises(BadInputError, match="packing_rule is 'guess'"):
        LucidSettings(packing_rule="guess")  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match="scores only"):
        ArtifactSettings(packing_rule="pairs", first_partner=True)


class Watched(Lucid):
    """Looks at all pairs at each decision: a pair that the rule allows must not wait, nor another be made."""

    def __init__(self) -> None:
        super().__init__(LucidSettings(profiling_nodes=0, packs_unmeasured=True, packing_rule="pairs"))

    def decide(self, snapshot: Snapshot) -> list:
        actions = super().decide(snapshot)
        pairs = [action for action in actions if isinstance(action, Colocate)]
        for action in pairs:
            assert self.fits(action.job, action.partner)
        served, taken = {action.job for action in actions}, {action.partner for action in pairs}
        for pool in snapshot.changed:
            for waiting in pool.queue:
                for running in pool.running:
                    missed = running not in taken and self.could_join(waiting, running, snapshot.now_s)
                    assert waiting in served or not missed
        return actions

    def could_join(self, waiting, running, now_s: float) -> bool:
        return (
            running.partner is None
            and not (running.unstable or waiting.unstable)
            and waiting.gpus == running.gpus
            and len(running.placement) == 1
            and running.start_time_s + running.estimate_s >= now_s
            and waiting.profile is not None
            and running.profile is not None
            and waiting.profile.gpu_mem_mib + running.profile.gpu_mem_mib < self.settings.gpu_memory_mib
            and self.fits(waiting, running)
        )

    @staticmethod
    def fits(one, other) -> bool:
        return SummedUtilisation().speeds(one.profile, other.profile)[0] >= BY_UTILISATION.mean_speed_min


@settings(max_examples=25, deadline=None)
@given(shape=st.sampled_from(["loaded", "burst"]), seed=st.integers(0, 10_000))
def test_who_may_share_by_the_rule_does(shape: str, seed: int) -> None:
    workload, cluster = sample_workload(shape, seed, jobs=60)
    simulation = AuditedSimulation(
        Scenario(workload, cluster, believed_pairs=BY_UTILISATION), Watched(), name="lucid"
    )
    simulation.run()
    assert simulation.completed == 60
