"""The Update Engine's eyes (Lucid, section 3.6.2): whether what a release learned is still true.

A pass reads what the lake holds since the release learned, compares it with the training window, measures
live estimates and forecasts beside naive rivals and validation, and decides: ok, watch or retrain. The same
lake, release and time give the same report.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from foundation.errors import BadInputError
from foundation.parts import hooks
from foundation.progress import Progress, silent
from pipeline.monitoring.data import (
    check_data,
    data_findings,
    monitored_window,
    read_monitored,
)
from pipeline.monitoring.drift import drift_findings, measure_drift
from pipeline.monitoring.errors import (
    duration_health,
    packing_health,
    throughput_health,
)
from pipeline.monitoring.findings import duration_findings, packing_findings, throughput_findings
from pipeline.monitoring.habits import habit_findings
from pipeline.monitoring.limits import limit_savings
from pipeline.monitoring.live import NO_RECORDS, LiveRecords, live_findings, live_health
from pipeline.monitoring.live_predictions import gate_prediction_errors, prediction_findings
from pipeline.monitoring.part_health import MonitoredRelease
from pipeline.monitoring.report import MonitorReport
from pipeline.monitoring.rules import MonitorSettings, by_urgency, decide
from pipeline.profiling.profile_store import stored_profile_set
from pipeline.validation.held_out_days import UnjudgedDays, unjudged_days


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


def load_watched_release(*, tracking_uri: str, cluster: str | None, alias: str) -> WatchedRelease:
    """Load the release behind a cluster's alias with its validation scores; without a cluster
    that of the only one that has releases.

    Raises NotFoundError when there is none, BadInputError when several clusters have releases and none is
    named, or when the release does not say until when it learned.
    """
    from lucid_models.registry import Registry
    from lucid_models.releases.clusters import which_cluster
    from lucid_models.releases.lifecycle import load_release_models, show_release

    cluster = which_cluster(tracking_uri, cluster)
    release = show_release(tracking_uri=tracking_uri, cluster=cluster, alias=alias)
    models = load_release_models(tracking_uri=tracking_uri, cluster=cluster, version=release.version)
    until = models.manifest.training.until
    if until is None:
        raise BadInputError(
            f"Release {release.version} does not say until when its models have learned.",
            remedy="Build it again with the end of its training window.",
        )
    registry = Registry(tracking_uri)
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
    release: WatchedRelease,
    *,
    lake_uri: str,
    cluster: str,
    settings: MonitorSettings | None = None,
    as_of: datetime | None = None,
    live: LiveRecords = NO_RECORDS,
    progress: Progress = silent,
) -> MonitorReport:
    """Make one pass over a loaded release; nothing is recorded.

    `live`: of a live scheduler that uses the release. `as_of` ends the log earlier, or later than its last
    job: then what did not come in is missing. Without it the release's `unjudged` days are left out: they lay
    in the lake when it was built, and nothing has changed since. Raises NotFoundError when the lake lacks the
    cluster or the release's training window.
    """
    from lucid_models.training import MAX_JOBS

    monitor_settings = settings or MonitorSettings()
    progress(0, 4, "reading the lake")
    window = monitored_window(
        lake_uri=lake_uri,
        cluster=cluster,
        trained_from=release.trained_from,
        trained_until=release.trained_until,
        window_days=monitor_settings.window_days,
        as_of=as_of,
        unjudged=release.unjudged,
    )
    tables = read_monitored(lake_uri, cluster, window, MAX_JOBS)
    health = check_data(tables)
    progress(1, 4, "comparing with the training window")
    drifts = measure_drift(tables)
    progress(2, 4, "estimating what has ended since")
    duration = duration_health(
        release.models.duration, tables, release.validation["duration"], monitor_settings
    )
    throughput = throughput_health(
        release.models.throughput, tables, release.validation["throughput"], monitor_settings
    )
    packing = packing_health(
        release.models.packing,
        stored_profile_set(lake_uri, cluster),
        release.packing_digest,
        release.validation["packing"],
    )
    monitored = MonitoredRelease(
        release.models, release.validation, lake_uri, cluster, window, monitor_settings
    )
    parts = {check.field: check.measure(monitored) for _, check in hooks("monitor_check")}
    present = [health for health in parts.values() if health is not None]
    drifts = (*drifts, *(drift for health in present for drift in health.drifts()))
    source = live.of(cluster)
    lived = None
    if source is not None:
        lived = live_health(
            source,
            release=release,
            lake_uri=lake_uri,
            cluster=cluster,
            window=window,
            settings=monitor_settings,
            token_file=live.token_file,
        )
    progress(3, 4, "deciding")
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
    progress(4, 4, "decided")
    return MonitorReport(
        cluster,
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
