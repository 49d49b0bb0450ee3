"""Themis: leases for the jobs that are treated worst (NSDI '20, as PCS' authors compare with it)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from foundation.errors import BadInputError
from parts.elastic.active_job import ActiveJob, to_microsecond
from parts.elastic.allocation import AllocationRule, Pool
from parts.elastic.elastic_policy import ElasticPolicy, ElasticSettings

LEASE_S = 600.0


class ThemisRule(AllocationRule):
    """Serves the job first that finishes latest beside when an equal share of the pool would have it done.

    What a job holds is a lease. Leases end together, `lease_s` after the last submission, end or lease.
    """

    def __init__(self, lease_s: float = LEASE_S) -> None:
        self.lease_s = lease_s

    def allocate(self, jobs: Sequence[ActiveJob], pool: Pool, now_s: float) -> list[float]:
        """Serve the job with the largest finish time fairness (rho), time after time.

        Its finish time is what it would be on the GPUs that it would get, were it next: without a speed-up
        curve, as the reference has it.
        """
        given = [0.0] * len(jobs)
        free_gpus = float(pool.gpus)
        waiting = {
            at: (now_s - job.submit_time_s, job.remaining_at(now_s), job.fair_time_s(pool.gpus))
            for at, job in enumerate(jobs)
        }
        while free_gpus > 0 and waiting:
            worst, worst_rho, useless = -1, 0.0, []
            for at, (elapsed_s, remaining_s, fair_s) in waiting.items():
                job = jobs[at]
                gpus = min(free_gpus, job.demand)
                if pool.whole and gpus < job.min_gpus:
                    useless.append(at)
                    continue
                # What has no work to do is done as soon as it is looked at.
                rho = (elapsed_s + remaining_s / gpus) / fair_s if fair_s else inf
                if worst < 0 or rho > worst_rho:
                    worst, worst_rho = at, rho
            for at in useless:
                del waiting[at]
            if worst < 0:
                break
            del waiting[worst]
            given[worst] = gpus = min(free_gpus, float(jobs[worst].demand))
            free_gpus -= gpus
        return given

    def next_change_s(self, jobs: Sequence[ActiveJob], pool: Pool, now_s: float) -> float | None:
        """Tell when the leases end."""
        return to_microsecond(now_s + self.lease_s) if jobs else None


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
