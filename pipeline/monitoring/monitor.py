"""The Update Engine's eyes (Lucid, section 3.6.2): whether what a release learned is still true.

A pass reads what the lake holds since the release learned, compares it with the training window, measures
live estimates and forecasts beside naive rivals and validation, and decides: ok, watch or retrain. The same
lake, release and time give the same report.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from foundation.errors import BadInputError
from foundation.parts import hooks
from foundation.site import Site
from lucid_models.duration.level_search import LevelSearchSettings, further_levels
from lucid_models.duration.levels import level_words
from lucid_models.duration.scorer import DurationScorer
from lucid_models.duration.tables import by_submission
from pipeline.monitoring.data import (
    MonitoredTables,
    check_data,
    data_findings,
    monitored_window,
    read_monitored,
)
from pipeline.monitoring.drift import drift_findings, measure_drift
from pipeline.monitoring.errors import duration_health, packing_health, throughput_health
from pipeline.monitoring.findings import duration_findings, packing_findings, throughput_findings
from pipeline.monitoring.live import NO_RECORDS, LiveRecords, live_findings, live_health
from pipeline.monitoring.live_predictions import gate_prediction_errors, prediction_findings
from pipeline.monitoring.part_health import MonitoredRelease
from pipeline.monitoring.report import MonitorReport, limit_savings
from pipeline.monitoring.rules import Finding, MonitorSettings, Urgency, by_urgency, decide
from pipeline.profiling.profile_store import stored_profile_set
from pipeline.validation.held_out_days import UnjudgedDays, unjudged_days

# A level that lowers the error by less than this share of it may as well be chance, or a near-equal one.
LEAST_GAIN = 0.05
# The best of many candidates looks good by chance where few jobs judge it.
LEAST_JUDGED_JOBS = 500


@dataclass(frozen=True)
class WatchedRelease:
    """A release with what its models scored at validation (metrics by name) and what packing learned from.

    `gate_errors` are the prediction errors that the gate saw (`live_predictions.gate_prediction_errors`).
    `unjudged`: days of the log of then that neither the release nor its gate was to know of.
    """

    version: int
    alias: str
    models: Any
    trained_from: datetime | None
    trained_until: datetime
    validation: Mapping[str, Mapping[str, float]]
    packing_digest: str
    gate_errors: Mapping[str, float] | None = None
    unjudged: UnjudgedDays | None = None


def load_watched_release(site: Site, *, alias: str) -> WatchedRelease:
    """Load the release behind a cluster's alias with its validation scores; without a cluster
    that of the only one that has releases.

    Raises NotFoundError when there is none, BadInputError when several clusters have releases and none is
    named, or when the release does not say until when it learned.
    """
    from lucid_models.registry import Registry
    from lucid_models.releases.clusters import which_cluster
    from lucid_models.releases.lifecycle import load_release_models, show_release

    site = site.of(which_cluster(site.registry, site.cluster))
    release = show_release(tracking_uri=site.registry, cluster=site.cluster, alias=alias)
    models = load_release_models(tracking_uri=site.registry, cluster=site.cluster, version=release.version)
    until = models.manifest.training.until
    if until is None:
        raise BadInputError(
            f"Release {release.version} does not say until when its models have learned.",
            remedy="Build it again with the end of its training window.",
        )
    registry = Registry(site.registry)
    versions = {kind: registry.version(pin.name, pin.version) for kind, pin in models.manifest.models.items()}
    begun = versions["duration"].tags.get("training_from")
    trained_until = datetime.fromisoformat(until)
    return WatchedRelease(
        release.version,
        alias,
        models,
        None if begun is None else datetime.fromisoformat(begun),
        trained_until,
        {kind: registry.run_metrics(pinned.run_id) for kind, pinned in versions.items()},
        versions["packing"].tags.get("dataset_digest", ""),
        gate_prediction_errors(release.verdict),
        unjudged_days(registry.version(release.name, release.version).tags, trained_until),
    )


def monitor_release(
    site: Site,
    release: WatchedRelease,
    *,
    settings: MonitorSettings | None = None,
    as_of: datetime | None = None,
    live: LiveRecords = NO_RECORDS,
) -> MonitorReport:
    """Make one pass over a loaded release; nothing is recorded.

    `live`: of a live scheduler that uses the release. `as_of` ends the log earlier, or later than its last
    job: then what did not come in is missing. Without it the release's `unjudged` days are left out: they lay
    in the lake when it was built, and nothing has changed since. Raises NotFoundError when the lake lacks the
    cluster or the release's training window.
    """
    from lucid_models.training import MAX_JOBS

    monitor_settings = settings or MonitorSettings()
    site.progress(0, 4, "reading the lake")
    window = monitored_window(
        site,
        trained_from=release.trained_from,
        trained_until=release.trained_until,
        window_days=monitor_settings.window_days,
        as_of=as_of,
        unjudged=release.unjudged,
    )
    tables = read_monitored(site, window, MAX_JOBS)
    health = check_data(tables)
    site.progress(1, 4, "comparing with the training window")
    drifts = measure_drift(tables)
    site.progress(2, 4, "estimating what has ended since")
    duration = duration_health(
        release.models.duration, tables, release.validation["duration"], monitor_settings
    )
    throughput = throughput_health(
        release.models.throughput, tables, release.validation["throughput"], monitor_settings
    )
    packing = packing_health(
        release.models.packing,
        stored_profile_set(site),
        release.packing_digest,
        release.validation["packing"],
    )
    monitored = MonitoredRelease(release.models, release.validation, site, window, monitor_settings)
    parts = {check.field: check.measure(monitored) for _, check in hooks("monitor_check")}
    present = [health for health in parts.values() if health is not None]
    drifts = (*drifts, *(drift for health in present for drift in health.drifts()))
    source = live.of(site.cluster)
    lived = None
    if source is not None:
        lived = live_health(
            site,
            source,
            release=release,
            window=window,
            settings=monitor_settings,
            token_file=live.token_file,
        )
    site.progress(3, 4, "deciding")
    findings = by_urgency(
        [
            *data_findings(health, window, monitor_settings),
            *drift_findings(drifts, monitor_settings),
            *habit_findings(release.models.duration.scorer, tables),
            *duration_findings(duration, monitor_settings),
            *throughput_findings(throughput, monitor_settings),
            *packing_findings(packing, monitor_settings),
            *(finding for health in present for finding in health.findings(monitor_settings)),
            *live_findings(lived, monitor_settings),
            *prediction_findings(None if lived is None else lived.predictions, monitor_settings),
        ]
    )
    site.progress(4, 4, "decided")
    return MonitorReport(
        site.cluster,
        release.version,
        release.alias,
        window,
        decide(findings),
        findings,
        health,
        drifts,
        duration,
        throughput,
        packing,
        monitor_settings,
        lived,
        limit_savings(tables),
        parts,
    )


def habit_findings(scorer: DurationScorer, tables: MonitoredTables) -> Iterator[Finding]:
    """Name the facts of jobs that tell their run times now and did not when the release learned, if any.

    Of a model that was saved when levels were a fixed list nothing is said.
    """
    if "levels" not in scorer.training:
        return
    search = LevelSearchSettings(least_gain=LEAST_GAIN, most_levels=1)
    record = further_levels(by_submission(tables.later), scorer.state, search)
    if record.get("judged_jobs", 0) < LEAST_JUDGED_JOBS:
        return
    for level in record["chosen"]:
        share = level["gain"] / record["error_of_all_jobs"]
        sentence = (
            f"Jobs of one {level_words(level['level'])} have come to run alike, which they did not when the "
            f"release learned: looking at it would lower the error of run times by {share:.0%}."
        )
        yield Finding(Urgency.RETRAIN, "drift", "what tells run times", sentence, share, LEAST_GAIN)
