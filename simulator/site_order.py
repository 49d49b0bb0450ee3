"""The order that a cluster follows today, which every verdict, what-if and plan is measured against.

As its site declares it (`site.toml`); else EASY backfilling by the time limits of its log, which is near what
Slurm, PBS and LSF do by default; else, in a log without limits, EASY backfilling by Tsafrir's estimates.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_logs.site.left_out import left_out
from cluster_logs.site.rules import SiteRules
from cluster_logs.site.site_file import site_data
from cluster_logs.site.stored_site import FIRST_IN_FIRST_OUT
from simulator.policies.registry import policy_class
from simulator.site_needs import lacking
from simulator.time_limits import with_limits_for_all
from simulator.workload import Workload


@dataclass(frozen=True)
class SiteOrder:
    """A policy with its settings, and the same in words that stand behind `the site's order`."""

    policy: str
    words: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    believes_limits: bool = True
    not_modelled: tuple[str, ...] = ()  # what the site declares and the policy leaves out

    def estimates_s(self, jobs: int) -> NDArray[np.float64] | None:
        """What it is told of so many jobs' run times beside their limits; None: nothing.

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
    told = {each.key: each for each in (*declared.ignored, *left_out(declared))}
    of_keys = (f"{each.key} = {each.value}: {each.effect}" for each in told.values())
    return *of_keys, *lacking(workload.jobs, declared)
