"""The rivals of PCS as policies under the rules of PCS' simulator: the same decisions, sooner."""

from collections.abc import Mapping
from dataclasses import dataclass

from experiments.pools.forgetful_themis import ForgetfulThemis
from experiments.pools.quick_rules import QuickAfsL, QuickElasticFifo, QuickSrsf, QuickThemis
from parts.elastic.allocation import AllocationRule
from parts.elastic.rules.afs import Afs
from parts.elastic.rules.elastic_fifo import ElasticFifo
from parts.elastic.rules.srsf import Srsf
from parts.elastic.rules.themis import Themis, ThemisSettings
from simulator.policy import Policy


class PoolAfs(Afs):
    """AFS-L in a pool."""

    rule: AllocationRule = QuickAfsL()


class PoolSrsf(Srsf):
    """SRSF in a pool."""

    rule: AllocationRule = QuickSrsf()


class PoolElasticFifo(ElasticFifo):
    """Elastic FIFO in a pool."""

    rule: AllocationRule = QuickElasticFifo()


@dataclass(frozen=True)
class PoolThemisSettings(ThemisSettings):
    """Settings of Themis under the rules of PCS' simulator.

    `forgetful` predicts ends in a pool without nodes as that simulator does (`ForgetfulLeases`).
    """

    forgetful: bool = False


class PoolThemis(Themis):
    """Themis in a pool; its predictions may forget."""

    Settings = PoolThemisSettings

    @property
    def rule(self) -> AllocationRule:
        """Most unfairly treated first."""
        quick = ForgetfulThemis if self.settings.forgetful else QuickThemis
        return quick(self.settings.lease_s)


POOL_POLICIES: Mapping[str, type[Policy]] = {
    "afs": PoolAfs,
    "srsf": PoolSrsf,
    "elastic_fifo": PoolElasticFifo,
    "themis": PoolThemis,
}
