"""What the lake holds of a cluster until a held-out window ends, each table read once."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pandas as pd

from cluster_logs.lake import Lake
from cluster_logs.log_span import busy_days, submission_span
from cluster_logs.site.rules import SiteRules
from cluster_logs.site.stored_site import stored_site
from foundation.errors import BadInputError, NotFoundError
from foundation.site import Site
from lucid_models.known_profiles import with_known_profiles
from pipeline.profiling.profile_store import measured_or_simulated
from pipeline.replay.cluster_events import lake_sizes
from pipeline.replay.warm_up import time_text
from pipeline.validation.forecast_beliefs import read_window_throughput
from profiler_jobs.profile_table import ProfileSet

TICK = timedelta(microseconds=1)  # the lake's resolution: the last submission belongs to the window


@dataclass(frozen=True)
class HeldOutWindow:
    """[start, end) is judged; jobs submitted from `warm_up_start` on occupy the cluster before."""

    warm_up_start: datetime
    start: datetime
    end: datetime


@dataclass(frozen=True)
class HeldOutData:
    """A cluster's tables: jobs submitted until the window ends, and what is known of jobs, nodes and load."""

    cluster: str
    window: HeldOutWindow
    jobs: pd.DataFrame
    job_metrics: pd.DataFrame  # of running jobs; maybe empty
    sizes: pd.DataFrame  # of the virtual clusters from the warm-up on, as `changing_cluster` reads them
    measured: ProfileSet  # alone, and how measured types slow each other down
    throughput: (
        pd.DataFrame | None
    )  # the bins until the window ends, with what forecasts of them look back to
    remarks: tuple[str, ...]
    site: SiteRules | None = None  # what its site declares of its scheduling

    def jobs_with_profiles(self) -> pd.DataFrame:
        """All jobs, each with the profile that was known at its submission."""
        return with_known_profiles(self.jobs, self.job_metrics)


def held_out_window(
    site: Site,
    *,
    learned_until: datetime,
    hold_out_days: int,
    warm_up_days: float,
    as_of: datetime | None = None,
) -> HeldOutWindow:
    """The last `hold_out_days` with jobs before the last submission, or before `as_of` where that is earlier.

    Raises BadInputError when the release has learned from a part of it, or when it is empty.
    """
    first, last = submission_span(site.lake, site.cluster, as_of)
    if not hold_out_days >= 1:
        raise BadInputError(f"A hold-out of {hold_out_days!r} days.", remedy="Use 1 day or more.")
    if learned_until >= last:
        raise BadInputError(
            f"There is nothing to judge: the release has learned until {time_text(learned_until)}, and the "
            f"last job of {site.cluster!r} was submitted at {time_text(last)}.",
            remedy="Ingest newer logs, or train on fewer days (`lucid train --hold-out-days`).",
        )
    days = busy_days(site.lake, site.cluster)
    start = days.before(last, hold_out_days)
    if start < learned_until:
        most = int(days.between(learned_until, last))
        remedy = "train a release that stops earlier (`lucid train --hold-out-days`)"
        if most >= 1:
            remedy = f"hold out at most {most} days, or {remedy}"
        raise BadInputError(
            f"The window of {hold_out_days} days begins at {time_text(start)}, but the release has learned "
            f"until {time_text(learned_until)}: it would be judged on what it has seen.",
            remedy=remedy[0].upper() + remedy[1:] + ".",
        )
    warm_up_start = max(first, days.before(start, warm_up_days))
    return HeldOutWindow(warm_up_start, start, last + TICK)


def read_held_out(site: Site, window: HeldOutWindow) -> HeldOutData:
    """Read each table once. Raises NotFoundError when the lake has no jobs or no nodes of the cluster."""
    lake = Lake(site.lake)
    jobs = lake.read_jobs(site.cluster, end=window.end)
    sizes = _sizes(lake, site.cluster, window.warm_up_start)
    measured, remarks = measured_or_simulated(site)
    return HeldOutData(
        site.cluster,
        window,
        jobs,
        lake.read_job_metrics(site.cluster),
        sizes,
        measured,
        read_window_throughput(site, window.warm_up_start, window.end),
        tuple(remarks),
        stored_site(site.lake, site.cluster),
    )


def _sizes(lake: Lake, cluster: str, at: datetime) -> pd.DataFrame:
    try:
        return lake_sizes(Site(lake=lake.uri, cluster=cluster), at, ZoneInfo("UTC"))
    except NotFoundError as error:
        raise NotFoundError(
            f"The size of cluster {cluster!r} is not in the lake {lake.uri}: nothing can be replayed.",
            remedy="Give a CSV of virtual_cluster,nodes: `lucid ingest ... --nodes FILE`.",
        ) from error
