"""What may be set of indolent packing, and its rule for pairs by the speeds that are predicted for them."""

from dataclasses import dataclass
from typing import Literal

from foundation.checked_settings import CheckedSettings
from foundation.errors import BadInputError
from simulator.job_view import JobView
from simulator.workload.colocation import BelievedPairs
from simulator.workload.job import JobProfile


@dataclass(frozen=True)
class PairRuleSettings(CheckedSettings):
    """By what two jobs may share.

    - `packing_rule`: "scores", a sum of sharing scores of at most G_SS; or "pairs", the speeds predicted for
      the two, relative to running alone.
    - `mean_speed_min`: their mean is predicted to be at least this; 0: what the prediction itself asks for.
    - `slower_speed_min`: the slower one is predicted to keep at least this; 0: no such rule.
    - `apathetic_speed_min`: the least mean speed while the strategy is apathetic (G_SS 1).
    """

    packing_rule: Literal["scores", "pairs"] = "scores"
    mean_speed_min: float = 0.0
    slower_speed_min: float = 0.0
    apathetic_speed_min: float = 0.95


class PairRule:
    """Says which two jobs may share, by the speeds that are predicted for them; remembers them by profiles.

    Not in the paper: its binder knows of each job only how heavy it is (section 3.3). A model of pairs also
    knows the partner.
    """

    def __init__(self, settings: PairRuleSettings, believed: BelievedPairs | None) -> None:
        if believed is None:
            raise BadInputError(
                "packing_rule is 'pairs', but no model predicts the speeds of pairs.",
                remedy="Use a release with a packing model of the kind pairwise, or packing_rule 'scores'.",
            )
        self.believed = believed
        self._settings = settings
        self._speeds: dict[tuple[JobProfile, JobProfile], tuple[float, float]] = {}

    def allows(self, job: JobView, other: JobView, *, apathetic: bool) -> bool:
        """Say whether the speeds predicted for two jobs are high enough; without a profile: no."""
        mine, theirs = job.profile, other.profile
        if mine is None or theirs is None:
            return False
        speeds = self._speeds.get((mine, theirs))
        if speeds is None:
            speeds = self._speeds[mine, theirs] = self.believed.speeds.speeds(mine, theirs)
        settings = self._settings
        least = settings.mean_speed_min or self.believed.mean_speed_min
        if apathetic:
            least = max(least, settings.apathetic_speed_min)
        return sum(speeds) / 2 >= least and min(speeds) >= settings.slower_speed_min


@dataclass(frozen=True)
class IndolentSettings(PairRuleSettings):
    """Settings of packing, beside those of the rule for pairs.

    - `gpu_memory_mib`: two jobs' memory on a GPU stays below it.
    - `partner_min_remaining_s`: a running job that is believed to end sooner is no partner.
    - `priority_ratio_max`: a job is not packed with one that is estimated to run so many times shorter; 0: no
      such rule, since partners are chosen by when they end.
    - `packs_unmeasured`: jobs that were never profiled are packed too.
    - `partners_by`: "end", the partner that ends closest to the job; or "score", the lowest sharing score,
      then the earliest start, however much run time is left.
    - `evict_unstable`: when the utilisation of a packed job turns out unstable, the later-placed of the pair
      has to go. Nothing was checkpointed, so it starts again from zero, alone or with another partner.
    - `packing`: "indolent", or "naive" for the ablation without binder (section 4.5): bin packing that
      respects GPU memory only; the earliest-started partner that fits.
    """

    gpu_memory_mib: float = 24_576.0
    partner_min_remaining_s: float = 0.0
    priority_ratio_max: float = 0.0
    packs_unmeasured: bool = False
    partners_by: Literal["end", "score"] = "end"
    evict_unstable: bool = True
    packing: Literal["indolent", "naive"] = "indolent"
