"""The Lucid artifact's own ways, as settings of the policy that are off by default."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from foundation.errors import BadInputError
from simulator.actions import Action
from simulator.artifact_rules.binder import AffineJobpairBinder, pack_after_idle
from simulator.artifact_rules.first_fit_packing import FirstPartnerBinder, pack_before_idle
from simulator.snapshot import NodePool
from simulator.stages.indolent_settings import IndolentSettings
from simulator.stages.orchestrator import ResourceOrchestrator
from simulator.stages.settings import StageSettings

# Where time is real, profiling takes some.
PROFILING_TAKES_TIME: Mapping[str, bool] = {"free_profiling": False}


@dataclass(frozen=True)
class ArtifactSettings(StageSettings):
    """What the artifact's simulator does differently (`--rules lucid-artifact`).

    - `packs_before_idle`: a job is packed, if a partner is allowed, before idle GPUs are tried.
    - `first_partner`: the partner is the first that is allowed, in the order of starts, however little run
      time it is estimated to have left.
    - `free_profiling`: profiling is played before all else, as if it took no time.
    """

    packs_before_idle: bool = False
    first_partner: bool = False
    free_profiling: bool = False

    @property
    def packs_by_artifact(self) -> bool:
        """Whether jobs are packed in the artifact's way."""
        return self.packs_before_idle or self.first_partner

    @property
    def profiles_beforehand(self) -> bool:
        """Whether profiling is played before all else."""
        return self.free_profiling

    def check_packing(self, packing_rule: str) -> None:
        """Raise BadInputError for a rule for pairs that the artifact's packing does not know."""
        if packing_rule == "pairs" and self.packs_by_artifact:
            raise BadInputError(
                "The artifact's way to pack (packs_before_idle, first_partner) knows sharing scores only.",
                remedy="Use packing_rule 'scores' with it.",
            )


class ArtifactPacking:
    """Serves a virtual cluster in the artifact's way."""

    def __init__(
        self, ways: ArtifactSettings, settings: IndolentSettings, orchestrator: ResourceOrchestrator
    ) -> None:
        binder = FirstPartnerBinder if ways.first_partner else AffineJobpairBinder
        self._binder = binder(settings)
        self._pack = pack_before_idle if ways.packs_before_idle else pack_after_idle
        self._orchestrator = orchestrator

    def serve(self, pool: NodePool, capacity: int | None, now_s: float) -> Sequence[Action]:
        """Start and pack waiting jobs; `capacity` bounds the sum of two sharing scores, None: no packing."""
        if capacity is None or not len(pool.queue):
            return self._orchestrator.start_what_fits(pool)
        return self._pack(pool, self._binder, capacity, now_s)
