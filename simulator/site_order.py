"""The order that a cluster follows today, which every verdict, what-if and plan is measured against.

As its site declares it (`site.toml`); else EASY backfilling by the time limits of its log, which is near what
Slurm, PBS and LSF do by default; else, in a log without limits, EASY backfilling by Tsafrir's estimates.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_logs.site.left_out import left_out
from cluster_logs.site.rules import SiteRules
from cluster_logs.site.site_file import site_data
from cluster_logs.site.stored_site import FIRST_IN_FIRST_OUT
from simulator.policies.registry import policy_class
from simulator.workload.job import Job
from simulator.workload.time_limits import with_limits_for_all
from simulator.workload.workload import Workload

_SHOWN = 3  # virtual clusters named


@dataclass(frozen=True)
class SiteOrder:
    """A policy with its settings, and the same in words that stand behind `the site's order`."""

    policy: str
    words: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    believes_limits: bool = True
    not_modelled: tuple[str, ...] = ()  # what the site declares and the policy leaves out

    def estimates_s(self, jobs: int) -> NDArray[np.float64] | None:
        """What it knows of so many jobs' run times beside their limits; None: nothing.

        A policy that goes by estimates gets endless ones, which `Workload.with_estimates` cuts to the limits.
        """
        return np.full(jobs, np.inf) if policy_class(self.policy).needs_estimates else None

    def knowing(self, workload: Workload) -> Workload:
        """Return the workload as the site's scheduler knows it."""
        limited, _ = with_limits_for_all(workload)
        estimates_s = self.estimates_s(len(limited))
        return limited if estimates_s is None else limited.with_estimates(estimates_s)


def site_order(workload: Workload, declared: SiteRules | None = None) -> SiteOrder:
    """Return the order of the site that a workload comes from; `declared`: what it says of itself."""
    if declared == FIRST_IN_FIRST_OUT:
        return SiteOrder("fifo", "first in, first out, as declared", believes_limits=False)
    if declared is not None:
        settings = {"site": site_data(declared)}
        left = _not_modelled(workload, declared)
        return SiteOrder("site", "Slurm's schedulers as declared", settings, not_modelled=left)
    if not np.isnan(workload.columns.time_limit_s).all():
        return SiteOrder("easy", "EASY backfilling by time limits")
    return SiteOrder("tsafrir_easy", "EASY backfilling by Tsafrir's estimates", believes_limits=False)


def _not_modelled(workload: Workload, declared: SiteRules) -> tuple[str, ...]:
    """Return what a replay leaves out of a declaration, by key, and what this log does not have for it."""
    # A file that people wrote does not list what its keys leave out.
    left_out_by_key = {each.key: each for each in (*declared.ignored, *left_out(declared))}
    of_keys = (f"{each.key} = {each.value}: {each.effect}" for each in left_out_by_key.values())
    return *of_keys, *lacking(workload.jobs, declared)


def lacking(jobs: Iterable[Job], rules: SiteRules) -> tuple[str, ...]:
    """Return what a site's scheduler would know of these jobs and a replay cannot, each with what follows."""
    jobs = tuple(jobs)
    lacks: list[tuple[bool, Callable[[Job], object], str]] = [
        (
            _goes_by_users(rules),
            lambda job: job.user,
            "The log names no users: their fair share and their limits are not replayed.",
        ),
        (
            _goes_by_users(rules),
            lambda job: job.account,
            "The log names no accounts: each user is replayed in the first that the site has of it.",
        ),
        (
            _goes_by_qos(rules),
            lambda job: job.qos,
            "The log names no QOS: all jobs have the one that the site gives by default.",
        ),
        (
            rules.scheduler.type == "backfill",
            lambda job: job.time_limit_s,
            "The log has no time limits: each job has that of its partition, so less is backfilled.",
        ),
    ]
    found = [text for needed, of_job, text in lacks if needed and not any(map(of_job, jobs))]
    partitions = {each.name for each in rules.partitions}
    others = sorted({job.virtual_cluster for job in jobs} - partitions) if partitions else []
    if others:
        shown = ", ".join(others[:_SHOWN]) + (
            f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        )
        found.append(
            f"The site declares no partition {shown}: jobs there have no partition's limits and priority."
        )
    return tuple(found)


def _goes_by_users(rules: SiteRules) -> bool:
    limited = rules.scheduler.enforce_limits and (rules.qos or rules.accounts or rules.users)
    shared = rules.priority.type == "multifactor" and rules.priority.weight_fair_share > 0
    return bool(shared or limited)


def _goes_by_qos(rules: SiteRules) -> bool:
    weighed = rules.priority.type == "multifactor" and rules.priority.weight_qos > 0
    return len(rules.qos) > 1 and (
        weighed or rules.preemption.type == "qos" or rules.scheduler.enforce_limits
    )
