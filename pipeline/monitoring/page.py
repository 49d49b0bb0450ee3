"""The page of a monitoring pass: one self-contained HTML file, the decision and its reasons first.

Every text of the log (users, virtual clusters, names) is escaped; the page runs no script and loads nothing.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from lucid_models.drift import Drift
from pipeline.monitoring import charts
from pipeline.monitoring.drift import largest_move
from pipeline.monitoring.errors import DurationHealth, SeriesHealth
from pipeline.monitoring.live_page import live_part
from pipeline.monitoring.monitor import MonitorReport
from pipeline.monitoring.page_parts import facts, figures, first_upper, interval, number, span, table
from pipeline.monitoring.rules import Level

DECISIONS: Mapping[Level, str] = {
    Level.OK: "Nothing to do: the release still fits the cluster.",
    Level.WATCH: "Somebody should look: see the findings.",
    Level.RETRAIN: "The models should be retrained.",
}
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;margin:.6rem 0;font-size:.88rem}"
    "th,td{border-bottom:1px solid #ddd;padding:.2rem .6rem;text-align:left;vertical-align:top}"
    "td.n{text-align:right;font-variant-numeric:tabular-nums}"
    ".badge{display:inline-block;padding:.1rem .7rem;border-radius:1rem;color:#fff;font-weight:600}"
    ".ok{background:#2e7d4f}.watch{background:#a86a00}.retrain{background:#b3261e}"
    ".bar{height:.8rem;min-width:1px}.shares td{border:0;padding:0 .4rem}.legend{margin:.4rem 0 0}"
    "svg{width:100%;max-width:640px;font:11px system-ui,sans-serif;fill:#444}"
    "summary{cursor:pointer}.note{color:#666}"
)


def monitoring_page(report: MonitorReport, history: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the page; `history`: earlier passes, the newest first (as_of, release, decision, mae_log10)."""
    title = f"Monitoring of {report.cluster}"
    body = "\n".join(
        [
            f"<h1>{escape(title)} <span class='badge {report.decision}'>{report.decision}</span></h1>",
            f"<p>{DECISIONS[report.decision]}</p>",
            _reasons(report),
            _about(report),
            _data(report),
            _drift(report.drift),
            _duration(report.duration),
            _throughput(report.throughput),
            _packing(report),
            live_part(report.live),
            _history(history),
            _settings(report),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def index_page(clusters: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return the page that lists each cluster's passes (href, as_of, release, decision), newest first."""
    parts = []
    for cluster in sorted(clusters):
        rows = "".join(
            f'<tr><td><a href="{escape(str(row["href"]))}">{escape(str(row["as_of"]))}</a></td>'
            f'<td class="n">{escape(str(row["release"]))}</td>'
            f"<td><span class='badge {escape(str(row['decision']))}'>{escape(str(row['decision']))}</span>"
            "</td></tr>"
            for row in clusters[cluster]
        )
        parts.append(
            f"<h2>{escape(cluster)}</h2><table><tr><th>as of (UTC)</th><th>release</th><th>decision</th></tr>"
            f"{rows}</table>"
        )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Monitoring</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>Monitoring</h1>\n{''.join(parts)}\n</body></html>\n"
    )


def _reasons(report: MonitorReport) -> str:
    if not report.findings:
        return "<p>No finding.</p>"
    rows = "".join(
        f"<tr><td><span class='badge {finding.level}'>{finding.level}</span></td>"
        f"<td>{escape(finding.area)}</td><td>{escape(finding.sentence)}</td></tr>"
        for finding in report.findings
    )
    return f"<table><tr><th>asks for</th><th>area</th><th>finding</th></tr>{rows}</table>"


def _about(report: MonitorReport) -> str:
    window = report.window
    alias = f" ({report.release_alias})" if report.release_alias else ""
    return (
        facts(
            {
                "release": f"{report.release_version}{alias}",
                "learned from": span(window.trained_from, window.trained_until),
                "judged window": span(window.start, window.end),
                "jobs submitted in it": f"{report.data.jobs:,}",
            }
        )
        + '<p class="note">All figures: <a href="report.json">report.json</a>.</p>'
    )


def _data(report: MonitorReport) -> str:
    health = report.data
    days = [day.day for day in health.days]
    known = {
        "days without a job": ", ".join(health.missing_days) or "none",
        "longest silence": f"{number(health.longest_silence_h, 1)} h (training: "
        f"{number(health.usual_silence_h, 1)} h)",
        "the log ends before the window by": f"{health.behind_h:.1f} h",
        "throughput bins missing": "no table"
        if health.bins is None
        else f"{health.missing_bins:,} of {health.bins:,}",
        "rows in quarantine": f"{health.quarantine_share:.2%}",
        "ends that are overdue": f"{health.overdue_ends:,}",
    }
    chart = charts.columns([day[5:] for day in days], [float(d.jobs) for d in health.days], "jobs a day")
    return f"<h2>Data</h2>{facts(known)}<p>Jobs submitted a day</p>{chart}"


def _drift(drifts: Sequence[Drift]) -> str:
    rows = []
    for drift in drifts:
        name = escape(drift.feature)
        if drift.psi is None:
            rows.append(f"<tr><td>{name}</td><td colspan='4' class='note'>{escape(drift.note)}</td></tr>")
            continue
        shown = (
            f"<details><summary>{escape(largest_move(drift))}</summary>{charts.shares(drift.bins)}</details>"
        )
        unseen = ""
        if drift.unseen_share is not None:
            usual = drift.usual_unseen_share
            unseen = f"{drift.unseen_share:.1%}" + ("" if usual is None else f" (usually {usual:.1%})")
        rows.append(
            f"<tr><td>{name}</td><td class='n'>{drift.psi:.3f}</td>"
            f"<td class='n'>{number(drift.usual_psi, 3)}</td><td>{unseen}</td><td>{shown}</td></tr>"
        )
    return (
        "<h2>Drift</h2><p>Population stability index of the window against the training window. "
        "Usual: the largest between training's own windows of the same length.</p>"
        "<table><tr><th>column</th><th>PSI</th><th>usual</th><th>never seen in training</th>"
        f"<th>what moved most</th></tr>{''.join(rows)}</table>"
    )


def _duration(health: DurationHealth) -> str:
    parts = ["<h2>Run time estimates</h2>"]
    if health.note:
        parts.append(f'<p class="note">{escape(first_upper(health.note))}.</p>')
    overall, validation = health.overall, health.validation
    if overall is None:
        return "".join(parts)
    rows = [
        ("mean error of log10", overall.mae_log10, validation.get("mae_log10"), overall.naive_mae_log10),
        ("Kendall's tau of GPU time", overall.kendall_tau, validation.get("kendall_tau"), None),
        ("jobs within P90", overall.coverage_p90, validation.get("coverage_p90"), None),
        ("jobs within P50", overall.coverage_p50, None, None),
    ]
    parts.append(
        table(
            ("", "now", "at validation", f"naive ({health.naive}), now"),
            [(name, *(number(value, 3) for value in values)) for name, *values in rows],
        )
    )
    parts.append(f"<p>{overall.jobs:,} jobs that ended in the window and were submitted after training. ")
    parts.append(interval("Against validation", health.against_validation))
    parts.append(interval("Against the naive rival", health.against_naive) + "</p>")
    expected = validation.get("mae_log10")
    parts.append(
        charts.lines(
            [day.day[5:] for day in health.days],
            [
                ("release", [day.error for day in health.days]),
                (f"naive ({health.naive})", [day.naive_error for day in health.days]),
            ],
            "mean error of log10 run time by day of submission",
            None if expected is None else ("at validation", expected),
        )
    )
    if health.virtual_clusters:
        parts.append(
            table(
                ("virtual cluster", "jobs", "error", "naive", "tau", "within P50", "within P90"),
                [
                    (
                        group.name,
                        f"{group.jobs:,}",
                        *figures(
                            group.mae_log10,
                            group.naive_mae_log10,
                            group.kendall_tau,
                            group.coverage_p50,
                            group.coverage_p90,
                        ),
                    )
                    for group in health.virtual_clusters
                ],
            )
        )
    return "".join(parts)


def _throughput(series: Sequence[SeriesHealth]) -> str:
    rows = [
        (
            health.series,
            f"{health.bins:,}",
            number(health.mae, 2),
            number(health.naive_mae, 2),
            number(health.validation_mae, 2),
            number(health.validation_naive_mae, 2),
            health.note,
        )
        for health in series
    ]
    head = ("series", "bins", "error now", "naive now", "at validation", "naive then", "")
    drawn = "".join(
        f"<p>{escape(health.series)}, mean error by day</p>"
        + charts.lines(
            [day.day[5:] for day in health.days],
            [("release", [d.error for d in health.days]), ("naive", [d.naive_error for d in health.days])],
            f"mean error of {health.series} by day",
        )
        for health in series
        if len(health.days) > 1
    )
    return (
        "<h2>Throughput forecasts</h2><p>For the whole cluster: the model knows no virtual clusters.</p>"
        f"{table(head, rows)}{drawn}"
    )


def _packing(report: MonitorReport) -> str:
    health = report.packing
    if health.accuracy is None:
        return f'<h2>Packing</h2><p class="note">{escape(first_upper(health.note))}.</p>'
    known = {
        "configurations": f"{health.configurations}",
        "labelled rightly": f"{health.accuracy:.0%}",
        "at validation, leave-one-out": number(health.validation_accuracy, 2),
        "Tiny called Jumbo or the reverse": f"{health.severe_errors or 0.0:.0%}",
    }
    return f'<h2>Packing</h2>{facts(known)}<p class="note">{escape(first_upper(health.note))}.</p>'


def _history(history: Sequence[Mapping[str, Any]]) -> str:
    if not history:
        return ""
    rows = [
        (str(row["as_of"]), str(row["release"]), str(row["decision"]), number(row.get("mae_log10"), 3))
        for row in history
    ]
    return f"<h2>Earlier passes</h2>{table(('as of', 'release', 'decision', 'error of log10'), rows)}"


def _settings(report: MonitorReport) -> str:
    known = {name.replace("_", " "): f"{value:g}" for name, value in vars(report.settings).items()}
    return f"<details><summary>Thresholds</summary>{facts(known)}</details>"
