"""What may be set of indolent packing."""

from dataclasses import dataclass
from typing import Literal

from simulator.stages.pair_rule import PairRuleSettings


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
      respects GPU memory, and nothing else; the earliest-started partner that fits.
    """

    gpu_memory_mib: float = 24_576.0
    partner_min_remaining_s: float = 0.0
    priority_ratio_max: float = 0.0
    packs_unmeasured: bool = False
    partners_by: Literal["end", "score"] = "end"
    evict_unstable: bool = True
    packing: Literal["indolent", "naive"] = "indolent"
