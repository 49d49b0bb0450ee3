"""Elastic FIFO: jobs get what they can use in the order of submission (PCS, section 2)."""

from simulator.elastic.allocation import AllocationRule
from simulator.elastic.elastic_policy import ElasticPolicy
from simulator.elastic.rules.elastic_fifo import ElasticFifoRule


class ElasticFifo(ElasticPolicy):
    """First come first served over elastic jobs: the last one served gets what is left, if it is of use."""

    oracle = False
    rule: AllocationRule = ElasticFifoRule()
