"""The rules of PCS' rivals, each with what keeps its answer up to date in a pool and predicts ends sooner.

A pool of thousands of jobs is asked at every event, and played forward at every submission; on a cluster with
nodes the plain rules are quick enough.
"""

from experiments.pools.afs_shares import AfsShares
from experiments.pools.fifo_line import Line
from experiments.pools.srsf_ranks import Ranks
from experiments.pools.themis_leases import Leases
from parts.elastic.allocation import Allocator, Pool
from parts.elastic.rules.afs import AfsL
from parts.elastic.rules.elastic_fifo import ElasticFifoRule
from parts.elastic.rules.srsf import ShortestRemainingServiceFirst
from parts.elastic.rules.themis import ThemisRule


class QuickAfsL(AfsL):
    """AFS-L, which keeps waiting jobs in their order."""

    def allocator(self, pool: Pool) -> Allocator:
        """Keep waiting jobs in their order."""
        return AfsShares(self, pool)


class QuickSrsf(ShortestRemainingServiceFirst):
    """SRSF, which keeps the jobs in their order."""

    def allocator(self, pool: Pool) -> Allocator:
        """Keep the jobs in their order."""
        return Ranks(pool)


class QuickThemis(ThemisRule):
    """Themis, which keeps the jobs in a table."""

    def allocator(self, pool: Pool) -> Allocator:
        """Keep the jobs in a table."""
        return Leases(self, pool, self.lease_s)


class QuickElasticFifo(ElasticFifoRule):
    """Elastic FIFO, which keeps the jobs that wait."""

    def allocator(self, pool: Pool) -> Allocator:
        """Keep the jobs that wait."""
        return Line(self, pool)
