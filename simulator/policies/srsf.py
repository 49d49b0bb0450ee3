"""Shortest remaining service first: Tiresias-G with known sizes, over elastic jobs (PCS, section 5.1)."""

from simulator.elastic.allocation import AllocationRule
from simulator.elastic.elastic_policy import ElasticPolicy
from simulator.elastic.rules.srsf import ShortestRemainingServiceFirst


class Srsf(ElasticPolicy):
    """Jobs are served in the order of GPUs x remaining run time; it reads true sizes."""

    rule: AllocationRule = ShortestRemainingServiceFirst()
