"""AFS-L: one GPU at a time to the job that gains most (NSDI '21, as PCS' authors have it)."""

from collections.abc import Sequence

from parts.elastic.active_job import ActiveJob
from parts.elastic.allocation import AllocationRule, Pool
from parts.elastic.elastic_policy import ElasticPolicy
from parts.elastic.rules.afs_tournament import Player, play


class AfsL(AllocationRule):
    """Shares by what a GPU more would gain; it knows the jobs' lengths."""

    at_events_only = True  # what a GPU more would gain changes with every second of work

    def allocate(self, jobs: Sequence[ActiveJob], pool: Pool, now_s: float) -> list[float]:
        """Hold a tournament for each GPU."""
        if sum(job.demand for job in jobs) <= pool.gpus:
            return [float(job.demand) for job in jobs]
        players = [
            Player(
                at,
                job.demand,
                job.speed_up,
                max(0.0, job.remaining_at(now_s)),
                max(1, job.min_gpus) if pool.whole else 1,
            )
            for at, job in enumerate(jobs)
        ]
        play(players, pool.gpus)
        return [float(player.gpus) for player in players]


class Afs(ElasticPolicy):
    """Apathetic future share, for jobs of known sizes: the best mean JCT among PCS' rivals."""

    rule: AllocationRule = AfsL()
