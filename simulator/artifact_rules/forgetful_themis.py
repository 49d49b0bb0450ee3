"""Themis' predictions as PCS' simulator makes them: they forget what jobs have done."""

from dataclasses import dataclass
from math import inf

from foundation.errors import BadInputError
from simulator.elastic.allocation import Allocator, Pool
from simulator.elastic.elastic_policy import ElasticSettings
from simulator.elastic.rules.themis import LEASE_S, ThemisRule
from simulator.elastic.rules.themis_leases import Leases
from simulator.elastic.rules.themis_table import RATE, REMAINING, SERVICE, SINCE, LeaseTable


@dataclass(frozen=True)
class ThemisSettings(ElasticSettings):
    """Settings of Themis: GPUs are handed out anew after `lease_s`, and whenever a job comes or ends.

    `forgetful` predicts ends in a pool without nodes as PCS' simulator does (`ForgetfulLeases`).
    """

    lease_s: float = LEASE_S
    forgetful: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.lease_s < float("inf"):
            raise BadInputError(f"lease_s is {self.lease_s!r}.", remedy="Use a positive number of s.")

    def rule(self) -> ThemisRule:
        """Return the rule of allocation."""
        return ForgetfulThemis(self.lease_s) if self.forgetful else ThemisRule(self.lease_s)


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
