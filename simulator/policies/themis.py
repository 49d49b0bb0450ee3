"""Themis: the job that is furthest from its fair finish time is served first (NSDI '20; PCS, section 5.1)."""

from dataclasses import dataclass

from foundation.errors import BadInputError
from simulator.elastic.allocation import AllocationRule
from simulator.elastic.elastic_policy import ElasticPolicy, ElasticSettings
from simulator.elastic.rules.themis import LEASE_S, ThemisRule


@dataclass(frozen=True)
class ThemisSettings(ElasticSettings):
    """Settings of Themis: GPUs are handed out anew after `lease_s`, and whenever a job comes or ends."""

    lease_s: float = LEASE_S

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.lease_s < float("inf"):
            raise BadInputError(f"lease_s is {self.lease_s!r}.", remedy="Use a positive number of s.")


class Themis(ElasticPolicy):
    """Leases by finish-time fairness, the ratio of the expected to the fair time of completion."""

    Settings = ThemisSettings

    @property
    def rule(self) -> AllocationRule:
        """Most unfairly treated first."""
        return ThemisRule(self.settings.lease_s)
