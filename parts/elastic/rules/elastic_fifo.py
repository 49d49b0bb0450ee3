"""Elastic FIFO: in the order of submission, each job gets what it can use of what is left."""

from collections.abc import Sequence

from parts.elastic.active_job import ActiveJob
from parts.elastic.allocation import AllocationRule, Pool
from parts.elastic.elastic_policy import ElasticPolicy
from parts.elastic.rules.whole_shares import in_turn


class ElasticFifoRule(AllocationRule):
    """Later jobs never take anything from earlier ones."""

    oracle = False
    arrivals_never_delay = True
    keeps_running = True

    def allocate(self, jobs: Sequence[ActiveJob], pool: Pool, now_s: float) -> list[float]:
        """Serve jobs from the front."""
        return in_turn(jobs, pool.gpus) if pool.whole else serve(jobs, pool)


def serve(jobs: Sequence[ActiveJob], pool: Pool) -> list[float]:
    """Give each job in turn what it can use of what is left."""
    free_gpus = float(pool.gpus)
    given = []
    for job in jobs:
        gpus = min(free_gpus, float(job.demand))
        if pool.whole and gpus < job.min_gpus:
            gpus = 0.0
        given.append(gpus)
        free_gpus -= gpus
    return given


class ElasticFifo(ElasticPolicy):
    """First come first served over elastic jobs: the last one served gets what is left, if it is of use."""

    oracle = False
    rule: AllocationRule = ElasticFifoRule()
