"""What a what-if may ask: clusters with their days and nodes, policies in a sentence; and its check.

The check is the one that the run makes: `SweepSpec` reads the very fields that the DAG `evaluate_policies`
is triggered with.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow.dataset as ds

from cluster_logs.lake import Lake
from foundation.errors import BadInputError, LucidError, NotFoundError, check_names
from foundation.outside_names import check_cluster_name
from foundation.site import Site
from foundation.storage import locate
from lucid_models.registry import Registry
from lucid_models.releases.aliases import CHAMPION
from lucid_models.releases.manifest import release_name
from lucid_models.releases.store import read_manifest
from pipeline.replay.cluster_events import lake_sizes
from pipeline.studies.sweeps.added_nodes import with_added_nodes
from pipeline.studies.sweeps.kept_jobs import MOST_RUNS
from pipeline.studies.sweeps.spec import SweepSpec
from pipeline.training.windows import read_time
from simulator.policies.registry import policy_sentence, usable_policies
from simulator.policy import Policy

USUAL_DAYS = 30
_USUAL_POLICIES = ("fifo", "qssf", "tiresias", "lucid")
# The form's fields: all others of the DAG keep their defaults.
FIELDS = ("cluster", "start", "end", "policies", "added_nodes", "live_release")


@dataclass(frozen=True)
class PolicyChoice:
    """A policy in a sentence; `knows`: what it goes by; `resizes`: whether it changes running jobs' GPUs."""

    name: str
    sentence: str
    knows: str
    resizes: bool
    usual: bool


@dataclass(frozen=True)
class ClusterChoice:
    """A cluster with the days of the lake, a month of which is the default, and its nodes.

    `nodes` by virtual cluster, None where they are not known; `live`: the live release's version and policy,
    None: none is; `problem`: why that could not be read.
    """

    name: str
    first_day: date
    last_day: date
    start: date
    nodes: Mapping[str, int] | None
    gpus_per_node: int | None
    live: Mapping[str, Any] | None
    problem: str | None


@dataclass(frozen=True)
class CheckedWhatIf:
    """What would be replayed: its jobs and replays, and both in words."""

    jobs: int
    replays: int
    sentence: str


def policy_choices() -> list[PolicyChoice]:
    """Return all policies, those that leave running jobs as they are first, each group as registered."""
    ordered = sorted(usable_policies().items(), key=lambda item: item[1].elastic)
    return [
        PolicyChoice(
            name, policy_sentence(name), _knows(policy), resizes=policy.elastic, usual=name in _USUAL_POLICIES
        )
        for name, policy in ordered
    ]


def _knows(policy: type[Policy]) -> str:
    if policy.oracle:
        return "true run times"
    return "estimates" if policy.needs_estimates else "nothing of run times"


def cluster_choices(site: Site) -> list[ClusterChoice]:
    """Return the clusters of the lake that have jobs, by name."""
    lake = Lake(site.lake)
    return [_cluster(lake, site.of(name)) for name in sorted(lake.clusters())]


def _cluster(lake: Lake, site: Site) -> ClusterChoice:
    name = site.cluster
    days = lake.dates(name)
    nodes = per_node = None
    try:
        table = lake.read_nodes(name)
        sums = table.groupby("virtual_cluster", sort=False)["nodes"].sum()
        nodes = {str(own): int(count) for own, count in sums.items()}
        per_node = int(table["gpus_per_node"].max())
    except NotFoundError:
        pass
    live = problem = None
    try:
        live = _live(site)
    except LucidError as error:
        problem = str(error)
    start = max(days[0], days[-1] - timedelta(days=USUAL_DAYS - 1))
    return ClusterChoice(name, days[0], days[-1], start, nodes, per_node, live, problem)


def _live(site: Site) -> dict[str, Any] | None:
    registry = Registry(site.registry)
    version = registry.aliases(release_name(site.cluster)).get(CHAMPION)
    if version is None:
        return None
    release = registry.version(release_name(site.cluster), version)
    return {"version": version, "policy": read_manifest(registry, release).policy}


def check_what_if(site: Site, asked: Mapping[str, Any]) -> CheckedWhatIf:
    """Return what the fields of a form would have replayed.

    Raises BadInputError, UnknownNameError or NotFoundError with the rule that they break.
    """
    check_names("field of a what-if", asked, FIELDS)
    cluster = check_cluster_name(str(asked.get("cluster") or ""))
    lake = Lake(site.lake)
    check_names("cluster of the lake", [cluster], sorted(lake.clusters()) or ["none yet"])
    values = {key: value for key, value in asked.items() if value not in (None, "", [], {})}
    if not values.get("policies"):
        raise BadInputError("No policy is chosen.", remedy="Tick at least one.")
    spec = SweepSpec().changed(
        {**values, "lake": site.lake, "tracking": site.registry, "keep_jobs": True}, place="The form"
    )
    days = _days(lake, cluster, spec)
    runs = spec.with_live_settings().runs()
    if len(runs) > MOST_RUNS:
        raise BadInputError(
            f"{len(runs):,} replays are too many for one picture.", remedy=f"Choose at most {MOST_RUNS}."
        )
    sizes = lake_sizes(site.of(cluster), _instant(days[0]), ZoneInfo("UTC"))
    with_added_nodes(sizes, spec.added_nodes)
    jobs = _count(lake, cluster, days)
    sizes_said = " with the nodes as they are and as asked" if spec.added_nodes else ""
    named = "policy" if len(spec.policies) == 1 else "policies"
    return CheckedWhatIf(
        jobs,
        len(runs),
        f"{len(runs):,} replays of {jobs:,} jobs, {days[0]} to {days[-1]}: {len(spec.policies)} {named}"
        f"{sizes_said}.",
    )


def _instant(day: date) -> Any:
    return read_time(day.isoformat())


def _days(lake: Lake, cluster: str, spec: SweepSpec) -> list[date]:
    start, end = read_time(spec.start), read_time(spec.end)
    if start is not None and end is not None and not start < end:
        raise BadInputError(
            f"The days begin on {start:%Y-%m-%d} and end before {end:%Y-%m-%d}.",
            remedy="End them later than they begin.",
        )
    held = lake.dates(cluster)
    days = [
        day for day in held if (start is None or day >= start.date()) and (end is None or _instant(day) < end)
    ]
    if not days:
        raise BadInputError(
            f"No job of {cluster!r} was submitted on these days: the lake has {held[0]} to {held[-1]}.",
            remedy="Choose days among those.",
        )
    return days


def _count(lake: Lake, cluster: str, days: list[date]) -> int:
    """Count a cluster's jobs of some days by what their files say of themselves."""
    fs, folder = locate(lake.table_uri("jobs", cluster))
    files = ds.dataset(
        [f"{folder}/date={day}/part-0.parquet" for day in days], filesystem=fs, format="parquet"
    )
    return int(files.count_rows())
