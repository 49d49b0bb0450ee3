"""What the lake knows of jobs' needs, for the live scheduler."""

from cluster_logs.lake import Lake
from cluster_logs.metrics.job_metrics import PROFILE
from foundation.site import Site
from live_scheduler.client import ReleaseClient
from live_scheduler.deciding.known_needs import Figures, KnownNeeds, MeasuredNeeds
from live_scheduler.release import LiveRelease
from lucid_models.known_profiles import LatestProfiles
from lucid_models.scoring import PackingScorer
from pipeline.profiling.profile_store import stored_profile_set


def known_needs(site: Site, client: ReleaseClient) -> KnownNeeds:
    """Return what the lake knows, scored by the release that the client follows."""

    def packing() -> PackingScorer | None:
        release = client.current
        return release.scorers.packing if isinstance(release, LiveRelease) else None

    return KnownNeeds(lambda: measurements(site), packing)


def measurements(site: Site) -> MeasuredNeeds:
    """Read the profiles of job types, unless they are simulated, and the metrics of jobs that ran."""
    by_type: dict[str, Figures] = {}
    profiles = stored_profile_set(site)
    if profiles is not None:
        measured = profiles.solo[~profiles.solo["simulated"].astype(bool)]
        rows = measured[["job_type", *PROFILE]].itertuples(index=False)
        by_type = {str(name): (float(util), float(mem), float(mib)) for name, util, mem, mib in rows}
    return MeasuredNeeds(by_type, LatestProfiles(Lake(site.lake).read_job_metrics(site.cluster)))
