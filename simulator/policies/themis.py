"""Themis: the job that is furthest from its fair finish time is served first (NSDI '20; PCS, section 5.1)."""

from simulator.artifact_rules.forgetful_themis import ThemisSettings
from simulator.elastic.allocation import AllocationRule
from simulator.elastic.elastic_policy import ElasticPolicy


class Themis(ElasticPolicy):
    """Leases by finish-time fairness, the ratio of the expected to the fair time of completion."""

    Settings = ThemisSettings

    @property
    def rule(self) -> AllocationRule:
        """Most unfairly treated first."""
        rule: AllocationRule = self.settings.rule()
        return rule
