"""Lucid with the ways of the artifact's simulator, each a setting that is off by default."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from experiments.artifact_rules.binder import AffineJobpairBinder, pack_after_idle
from experiments.artifact_rules.first_fit_packing import FirstPartnerBinder, pack_before_idle
from foundation.errors import BadInputError
from simulator.actions import Action
from simulator.cluster.spec import ClusterSpec
from simulator.policies.lucid import Lucid, LucidSettings
from simulator.snapshot import NodePool, Snapshot


@dataclass(frozen=True)
class ArtifactSettings(LucidSettings):
    """What the artifact's simulator does differently (`--rules lucid-artifact`).

    - `packs_before_idle`: a job is packed, if a partner is allowed, before idle GPUs are tried.
    - `first_partner`: the partner is the first that is allowed, in the order of starts, however little run
      time it is estimated to have left.
    - `free_profiling`: profiling is played before all else, as if it took no time.
    """

    packs_before_idle: bool = False
    first_partner: bool = False
    free_profiling: bool = False

    def __post_init__(self) -> None:
        """Refuse a rule for pairs that the artifact's packing does not know."""
        super().__post_init__()
        if self.packing_rule == "pairs" and self.packs_by_artifact:
            raise BadInputError(
                "The artifact's way to pack (packs_before_idle, first_partner) knows sharing scores only.",
                remedy="Use packing_rule 'scores' with it.",
            )

    @property
    def packs_by_artifact(self) -> bool:
        """Whether jobs are packed in the artifact's way."""
        return self.packs_before_idle or self.first_partner


class ArtifactLucid(Lucid):
    """Lucid as its authors' simulator may play it."""

    unequal_nodes = False
    Settings = ArtifactSettings

    def __init__(self, settings: ArtifactSettings | None = None) -> None:
        self.ways = settings or ArtifactSettings()
        super().__init__(self.ways)
        self._binder = (FirstPartnerBinder if self.ways.first_partner else AffineJobpairBinder)(self.ways)
        self._pack = pack_before_idle if self.ways.packs_before_idle else pack_after_idle

    def prepare(self, cluster: ClusterSpec, largest_job: Mapping[str, int]) -> ClusterSpec:
        """Set the profiler's nodes aside, unless it was played first."""
        return cluster if self.ways.free_profiling else super().prepare(cluster, largest_job)

    def serve(self, pool: NodePool, capacity: int | None, snapshot: Snapshot) -> Sequence[Action]:
        """Start and pack jobs of a virtual cluster, in the artifact's way if it is so set."""
        if not self.ways.packs_by_artifact:
            return super().serve(pool, capacity, snapshot)
        if capacity is None or not len(pool.queue):
            return self.orchestrator.start_what_fits(pool)
        return self._pack(pool, self._binder, capacity, snapshot.now_s)
