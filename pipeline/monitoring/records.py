"""What stays of a monitoring pass: its page and report in the state folder, a run of MLflow, and, if it asks
for a retraining, the request.

    STATE/monitoring/index.html                      all passes
    STATE/monitoring/CLUSTER/2020-05-06T0000Z-r3/    index.html, report.json
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from foundation.outside_names import check_cluster_name
from foundation.site import Site
from lucid_models.registry import FoundRun, Registry
from pipeline.kept_reports import MOST_LISTED, PAGE_FILE, write_index, write_report_files
from pipeline.monitoring.live import NO_RECORDS, LiveHealth, LiveRecords
from pipeline.monitoring.monitor import load_watched_release, monitor_release
from pipeline.monitoring.page import index_page, monitoring_page
from pipeline.monitoring.report import MonitorReport
from pipeline.monitoring.rules import MonitorSettings, Urgency

EXPERIMENT = "lucid-monitoring"
PAGES = "monitoring"  # in the state folder
REQUESTED = "retraining_requested"
_RANK = {Urgency.OK: 0.0, Urgency.WATCH: 1.0, Urgency.RETRAIN: 2.0}
_NOT_IN_METRICS = re.compile(r"[^A-Za-z0-9_. -]")
REPORT_FILE = "report.json"


@dataclass(frozen=True)
class Retraining:
    """Whether a pass requests a retraining, and why (not); with what the retraining is told."""

    requested: bool
    sentence: str
    hold_out_days: int


@dataclass(frozen=True)
class MonitoringPass:
    """A recorded pass. `page`: below the pages' folder; `mlflow_path`: below MLflow's address."""

    report: MonitorReport
    retraining: Retraining
    folder: Path
    page: str
    mlflow_path: str


@dataclass(frozen=True)
class PassRequest:
    """What a pass watches, as of when, and what may come of it.

    `may_request`: a decision to retrain becomes a request, unless one was made less than `cooldown_hours` of
    log ago. `pass_id` names a pass that may be tried again: its own earlier request does not count.
    """

    alias: str = "champion"
    as_of: datetime | None = None
    may_request: bool = False
    pass_id: str = ""


A_LOOK = PassRequest()


def make_pass(
    site: Site,
    *,
    pages_dir: Path,
    settings: MonitorSettings | None = None,
    asked: PassRequest = A_LOOK,
    live: LiveRecords = NO_RECORDS,
) -> MonitoringPass:
    """Watch the release behind a cluster's alias (default: the only cluster's), and record what was found.

    Raises NotFoundError when there is no such release or the lake lacks its training window, BadInputError
    when several clusters have releases and none is named, ServiceUnavailableError when MLflow does not
    answer.
    """
    monitor_settings = settings or MonitorSettings()
    release = load_watched_release(site, alias=asked.alias)
    name = check_cluster_name(release.models.manifest.cluster)
    report = monitor_release(site.of(name), release, settings=monitor_settings, as_of=asked.as_of, live=live)
    registry = Registry(site.registry)
    earlier = registry.find_runs(EXPERIMENT, {"cluster": name}, most=MOST_LISTED)
    pass_id = asked.pass_id
    others = [run for run in earlier if run.tags.get("pass_id") != pass_id or not pass_id]
    retraining = _retraining(report, others, asked.may_request)
    folder = pages_dir / name / f"{report.window.end.astimezone(UTC):%Y-%m-%dT%H%MZ}-r{release.version}"
    write_monitor_report(report, folder, tuple(map(_history_row, earlier)))
    write_index(pages_dir, REPORT_FILE, _line_of, index_page)
    tags = {
        "cluster": name,
        "release_version": str(release.version),
        "decision": str(report.decision),
        "as_of": report.window.end.isoformat(),
        "pass_id": pass_id,
        REQUESTED: str(retraining.requested).lower(),
    }
    with registry.run(EXPERIMENT, _run_name(report, name), tags) as run:
        run.log_params({"alias": asked.alias, **vars(monitor_settings)})
        run.log_metrics(dict(metrics_of(report)))
        run.log_folder(folder)
        path = run.ui_path()
    page = f"{name}/{folder.name}/{PAGE_FILE}"
    return MonitoringPass(report, retraining, folder, page, path)


def _run_name(report: MonitorReport, cluster: str) -> str:
    at = f"{report.window.end:%Y-%m-%d %H:%M}"
    return f"{cluster} release {report.release_version} at {at}: {report.decision}"


def metrics_of(report: MonitorReport) -> Iterator[tuple[str, float]]:
    """Name every number that is worth following over time, as MLflow takes names."""
    yield "decision", _RANK[report.decision]
    yield "findings", float(len(report.findings))
    for drift in report.drift:
        subject = metric_part(drift.feature)
        yield from _known({f"drift/{subject}/psi": drift.psi, f"drift/{subject}/unseen": drift.unseen_share})
    health = report.duration
    groups = [("duration", health.overall)]
    groups += [
        (f"duration/virtual_cluster/{metric_part(group.name)}", group) for group in health.virtual_clusters
    ]
    for place, group in groups:
        if group is not None:
            yield f"{place}/jobs", float(group.jobs)
            names = ("mae_log10", "naive_mae_log10", "kendall_tau", "coverage_p50", "coverage_p90")
            yield from _known({f"{place}/{name}": getattr(group, name) for name in names})
    yield from _known({"duration/validation_mae_log10": health.validation.get("mae_log10")})
    for series in report.throughput:
        place = f"throughput/{series.series}"
        yield from _known({f"{place}/mae": series.mae, f"{place}/naive_mae": series.naive_mae})
    yield from _known({"packing/accuracy": report.packing.accuracy})
    for part in report.parts.values():
        if part is not None:
            yield from _known(part.figures())
    yield from _live_metrics(report.live)
    data = report.data
    yield "data/jobs", float(data.jobs)
    yield "data/missing_days", float(len(data.missing_days))
    yield "data/quarantine_share", data.quarantine_share
    yield from _known({"data/longest_silence_h": data.longest_silence_h})


def _live_metrics(live: LiveHealth | None) -> Iterator[tuple[str, float]]:
    if live is None:
        return
    groups = [("live", live.errors)]
    groups += [(f"live/virtual_cluster/{metric_part(group.name)}", group) for group in live.virtual_clusters]
    for place, group in groups:
        if group is not None:
            names = ("jobs", "mae_log10", "naive_mae_log10", "kendall_tau", "coverage_p50")
            yield from _known({f"{place}/{name}": getattr(group, name) for name in names})
    past = live.hindsight
    if past is not None:
        yield "live/mean_jct_s", past.measured.mean_jct_s
        yield "live/regret_against_backfill_s", past.against_backfill.point_s
        yield "live/regret_against_true_durations_s", past.against_true_durations.point_s
    for predicted in live.predictions.groups if live.predictions is not None else ():
        place = f"live/predictions/{metric_part(predicted.policy)}/release_{predicted.release_version or 0}"
        if predicted.virtual_cluster:
            place += f"/virtual_cluster/{metric_part(predicted.virtual_cluster)}"
        yield from ((f"{place}/{name}", float(value)) for name, value in asdict(predicted.errors).items())
    if live.agreement is not None:
        yield from _known({"live/agreement": live.agreement.share})


def metric_part(text: str) -> str:
    """Return a text as a part of a metric's name; texts that differ stay different."""
    part = _NOT_IN_METRICS.sub("_", text)[:80]
    if part != text or not part.strip(". "):
        part = f"{part.strip('. ')}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
    return part


def _known(values: Mapping[str, float | None]) -> Iterator[tuple[str, float]]:
    yield from ((name, float(value)) for name, value in values.items() if value is not None)


def _retraining(report: MonitorReport, earlier: list[FoundRun], may_request: bool) -> Retraining:
    settings = report.settings

    def answer(requested: bool, sentence: str) -> Retraining:
        return Retraining(requested, sentence, settings.hold_out_days)

    if report.decision is not Urgency.RETRAIN:
        return answer(False, "No retraining is needed.")
    if not may_request:
        return answer(False, "A retraining is advised; this pass requests none.")
    times = [
        datetime.fromisoformat(run.tags["as_of"]) for run in earlier if run.tags.get(REQUESTED) == "true"
    ]
    if times and report.window.end - max(times) < timedelta(hours=settings.cooldown_hours):
        return answer(
            False,
            f"A retraining was requested as of {max(times):%Y-%m-%d %H:%M}; the next may be after "
            f"{settings.cooldown_hours:g} hours of new log.",
        )
    return answer(True, "A retraining is requested.")


def _history_row(run: FoundRun) -> dict[str, Any]:
    return {
        "as_of": run.tags.get("as_of", "")[:16],
        "release": run.tags.get("release_version", ""),
        "decision": run.tags.get("decision", ""),
        "mae_log10": run.metrics.get("duration/mae_log10"),
    }


def _line_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the index shows of a pass."""
    return {
        "as_of": document["window"]["end"][:16],
        "release": document["release_version"],
        "decision": document["decision"],
    }


def write_monitor_report(
    report: MonitorReport, folder: Path, history: tuple[Mapping[str, Any], ...] = ()
) -> None:
    """Write report.json and the page; the same report gives the same bytes."""
    text = json.dumps(report.to_dict(), indent=1, sort_keys=True, allow_nan=False) + "\n"
    write_report_files(folder, {REPORT_FILE: text}, {}, monitoring_page(report, history))
