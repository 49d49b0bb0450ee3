"""Themis' predictions as PCS' simulator makes them: they forget what jobs have done."""

from math import inf

from experiments.pools.themis_leases import Leases
from experiments.pools.themis_table import RATE, REMAINING, SERVICE, SINCE, LeaseTable
from parts.elastic.allocation import Allocator, Pool
from parts.elastic.rules.themis import ThemisRule


class ForgetfulThemis(ThemisRule):
    """Allocates as Themis does; only its predictions differ."""

    def allocator(self, pool: Pool) -> Allocator:
        """Keep the jobs in a table."""
        return ForgetfulLeases(self, pool, self.lease_s)


class ForgetfulLeases(Leases):
    """Plays a pool forward in which what is left of each job is all of its work.

    So fair times are too short for jobs that have run. And no lease ends before the first job does.
    """

    def _to_play(self, now_s: float) -> tuple[LeaseTable, float]:
        ahead = self.table.copy()
        columns = ahead.columns
        columns[SERVICE] = columns[REMAINING] - columns[RATE] * (now_s - columns[SINCE])
        return ahead, inf
