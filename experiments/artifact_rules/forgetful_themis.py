"""Themis' predictions as PCS' simulator makes them: they forget what jobs have done."""

from dataclasses import dataclass
from math import inf

from simulator.elastic.allocation import AllocationRule, Allocator, Pool
from simulator.elastic.rules.themis import ThemisRule
from simulator.elastic.rules.themis_leases import Leases
from simulator.elastic.rules.themis_table import RATE, REMAINING, SERVICE, SINCE, LeaseTable
from simulator.policies.themis import Themis, ThemisSettings


@dataclass(frozen=True)
class PcsThemisSettings(ThemisSettings):
    """Settings of Themis under the rules of PCS' simulator.

    `forgetful` predicts ends in a pool without nodes as that simulator does (`ForgetfulLeases`).
    """

    forgetful: bool = False


class PcsThemis(Themis):
    """Themis whose predictions may forget."""

    Settings = PcsThemisSettings

    @property
    def rule(self) -> AllocationRule:
        """Most unfairly treated first."""
        return ForgetfulThemis(self.settings.lease_s) if self.settings.forgetful else super().rule


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
