"""AFS-L: GPUs go, one at a time, to the job that gains most by them (NSDI '21; PCS, section 5.1)."""

from simulator.elastic.allocation import AllocationRule
from simulator.elastic.elastic_policy import ElasticPolicy
from simulator.elastic.rules.afs import AfsL


class Afs(ElasticPolicy):
    """Apathetic future share, for jobs whose sizes are known: the best mean JCT among PCS' rivals."""

    rule: AllocationRule = AfsL()
