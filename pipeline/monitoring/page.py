"""The page of a monitoring pass: one self-contained HTML file, the decision and its reasons first.

The page is `templates/monitoring.html`; here stand the tables and pictures that it shows.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from foundation.html_pages import dashed, inline_svg, render_page
from live_scheduler.hindsight.replayed_window import Regret
from pipeline.monitoring.drift import largest_move
from pipeline.monitoring.errors import DurationHealth, PackingHealth, SeriesHealth
from pipeline.monitoring.forecast_errors import Change
from pipeline.monitoring.live import LiveHealth, window_of
from pipeline.monitoring.live_predictions import PredictionHealth
from pipeline.monitoring.report import LimitSavings, MonitorReport
from pipeline.monitoring.rules import Urgency

# Pictures; their numbers stand as text beside them.
_COLOURS = ("#2563a8", "#c2681f")
_GREY = "#777777"
_SIZE_IN = (7.4, 2.2)
_MOST_LABELS = 8

DECISIONS: Mapping[Urgency, str] = {
    Urgency.OK: "Nothing to do: the release still fits the cluster.",
    Urgency.WATCH: "A person should look: see the findings.",
    Urgency.RETRAIN: "The models should be retrained.",
}
_PACKAGE = "pipeline.monitoring"


def monitoring_page(report: MonitorReport, history: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the page; `history`: earlier passes, the newest first (as_of, release, decision, mae_log10)."""
    return render_page(
        _PACKAGE,
        "monitoring.html",
        title=f"Monitoring of {report.cluster}",
        report=report,
        decision=DECISIONS[report.decision],
        about=_about(report),
        data=_data(report),
        jobs_a_day=_columns(
            [day.day[5:] for day in report.data.days], [float(d.jobs) for d in report.data.days], "jobs a day"
        ),
        duration=_duration(report.duration),
        throughput=_throughput(report.throughput),
        packing=_packing(report.packing),
        parts=[health.section() for health in report.parts.values() if health is not None],
        limits=[_limits(savings) for savings in report.limits],
        live=None if report.live is None else _live(report.live),
        history=[
            (*(str(row[name]) for name in ("as_of", "release", "decision")), dashed(row.get("mae_log10")))
            for row in history
        ],
        thresholds={name.replace("_", " "): f"{value:g}" for name, value in vars(report.settings).items()},
        largest_move=largest_move,
        interval=_interval,
        regret=_regret,
    )


def index_page(clusters: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return the page that lists each cluster's passes (href, as_of, release, decision), newest first."""
    return render_page(_PACKAGE, "passes.html", title="Monitoring", clusters=clusters)


def _about(report: MonitorReport) -> dict[str, str]:
    window = report.window
    alias = f" ({report.release_alias})" if report.release_alias else ""
    return {
        "release": f"{report.release_version}{alias}",
        "learned from": _span(window.trained_from, window.trained_until),
        "judged window": _span(window.start, window.end),
        "jobs submitted in it": f"{report.data.jobs:,}",
    }


def _data(report: MonitorReport) -> dict[str, str]:
    health = report.data
    silence, usual = dashed(health.longest_silence_h, 1), dashed(health.usual_silence_h, 1)
    return {
        "days without a job": ", ".join(health.missing_days) or "none",
        "longest silence": f"{silence} h (training: {usual} h)",
        "the log ends before the window by": f"{health.behind_h:.1f} h",
        "throughput bins missing": "no table"
        if health.bins is None
        else f"{health.missing_bins:,} of {health.bins:,}",
        "rows in quarantine": f"{health.quarantine_share:.2%}",
        "ends that are overdue": f"{health.overdue_ends:,}",
    }


def _duration(health: DurationHealth) -> dict[str, Any] | None:
    overall, validation = health.overall, health.validation
    if overall is None:
        return None
    expected = validation.get("mae_log10")
    rows = (
        ("mean error of log10", overall.mae_log10, expected, overall.naive_mae_log10),
        ("Kendall's tau of GPU time", overall.kendall_tau, validation.get("kendall_tau"), None),
        ("jobs within P90", overall.coverage_p90, validation.get("coverage_p90"), None),
        ("jobs within P50", overall.coverage_p50, None, None),
    )
    chart = _lines(
        [day.day[5:] for day in health.days],
        [
            ("release", [day.error for day in health.days]),
            (f"naive ({health.naive})", [day.naive_error for day in health.days]),
        ],
        "mean error of log10 run time by day of submission",
        None if expected is None else ("at validation", expected),
    )
    virtual_clusters = [
        (
            group.name,
            f"{group.jobs:,}",
            dashed(group.mae_log10),
            dashed(group.naive_mae_log10),
            dashed(group.kendall_tau),
            dashed(group.coverage_p50),
            dashed(group.coverage_p90),
        )
        for group in health.virtual_clusters
    ]
    return {
        "rows": [(name, *map(dashed, values)) for name, *values in rows],
        "chart": chart,
        "virtual_clusters": virtual_clusters,
    }


def _throughput(series: Sequence[SeriesHealth]) -> dict[str, Any]:
    rows = [
        (
            health.series,
            f"{health.bins:,}",
            dashed(health.mae, 2),
            dashed(health.naive_mae, 2),
            dashed(health.validation_mae, 2),
            dashed(health.validation_naive_mae, 2),
            health.note,
        )
        for health in series
    ]
    drawn = [
        (
            health.series,
            _lines(
                [day.day[5:] for day in health.days],
                [
                    ("release", [day.error for day in health.days]),
                    ("naive", [day.naive_error for day in health.days]),
                ],
                f"mean error of {health.series} by day",
            ),
        )
        for health in series
        if len(health.days) > 1
    ]
    return {"rows": rows, "charts": drawn}


def _limits(savings: LimitSavings) -> tuple[str, ...]:
    return (
        savings.group,
        f"{savings.jobs:,}",
        f"{savings.ratio_before:,.2f}",
        f"{savings.ratio_after:,.2f}",
        f"{savings.lowered_pct:.0f} %",
        f"{100 - savings.limit_time_pct:.0f} %",
        f"{savings.killed_pct:.2f} %",
    )


def _packing(health: PackingHealth) -> dict[str, str] | None:
    if health.accuracy is None:
        return None
    return {
        "configurations": f"{health.configurations}",
        "labelled rightly": f"{health.accuracy:.0%}",
        "at validation, leave-one-out": dashed(health.validation_accuracy, 2),
        "Tiny called Jumbo or the reverse": f"{health.severe_errors or 0.0:.0%}",
    }


def _live(health: LiveHealth) -> dict[str, Any]:
    estimates = [
        (
            group.name,
            f"{group.jobs:,}",
            dashed(group.mae_log10),
            dashed(group.naive_mae_log10),
            dashed(group.kendall_tau),
            dashed(group.coverage_p50),
        )
        for group in ((health.errors, *health.virtual_clusters) if health.errors is not None else ())
    ]
    past, agreement = health.hindsight, health.agreement
    replays = (
        ()
        if past is None
        else (
            ("measured", past.measured),
            (f"replayed: {past.policy}, as estimated", past.live),
            ("replayed: first come, first served, backfilled", past.backfill),
            (f"replayed: {past.policy}, true run times", past.true_durations),
        )
    )
    return {
        "estimates": estimates,
        "replays": [
            (name, dashed(figures.mean_jct_s, 0), dashed(figures.mean_queuing_delay_s, 0))
            for name, figures in replays
        ],
        "replayed_window": "" if past is None else window_of(past),
        **_predictions(health.predictions),
        "agreement": None
        if agreement is None or agreement.share is None
        else f"Of {agreement.started:,} jobs that started, the policy would have started "
        f"{agreement.share:.0%} by then.",
    }


def _predictions(health: PredictionHealth | None) -> dict[str, Any]:
    if health is None:
        return {"predictions": (), "prediction_chart": ""}
    rows = [
        (
            group.policy,
            dashed(group.release_version, 0),
            group.virtual_cluster or "all",
            f"{group.errors.jobs:,}",
            dashed(group.errors.mean_pct, 1),
            dashed(group.errors.p99_pct, 1),
            f"{group.errors.by_promise:.0%}",
            f"{group.errors.by_p90:.0%}",
            f"{group.errors.late:,}",
        )
        for group in health.groups
    ]
    expected = (health.expected or {}).get("mean_pred_err_pct")
    chart = _lines(
        [day.day[5:] for day in health.days],
        [("mean error, %", [day.mean_pct for day in health.days])],
        "error of completion times told at submission, by day of the end",
        None if expected is None else ("promised by the gate", expected),
    )
    return {"predictions": rows, "prediction_chart": chart}


def _interval(what: str, change: Change | None) -> str:
    """Return a change with its interval in words; nothing where it has none."""
    if change is None or change.low is None or change.high is None:
        return ""
    return f"{what}: {change.point:+.3f} ({change.low:+.3f} to {change.high:+.3f}, {change.days} days). "


def _regret(other: str, regret: Regret) -> str:
    interval = ""
    if regret.low_s is not None and regret.high_s is not None:
        interval = f" ({regret.low_s:+,.0f} to {regret.high_s:+,.0f})"
    return f"Regret against {other}: {regret.point_s:+,.0f} s{interval}."


def _span(start: datetime, end: datetime) -> str:
    return f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"


def _columns(labels: Sequence[str], values: Sequence[float], title: str) -> Markup:
    """Draw a column a label, with the value above it."""
    if not values:
        return Markup()
    figure, axes = _axes()
    bars = axes.bar(range(len(labels)), values, color=_COLOURS[0], width=0.7)
    axes.bar_label(bars, labels=[f"{value:,.0f}" for value in values], fontsize=8)
    axes.set_yticks([])
    return _drawn(figure, axes, labels, title)


def _lines(
    labels: Sequence[str],
    series: Sequence[tuple[str, Sequence[float]]],
    title: str,
    level: tuple[str, float] | None = None,
) -> Markup:
    """Draw lines over the same labels from zero on, and a dashed `level`; nothing below two labels."""
    if len(labels) < 2:
        return Markup()
    figure, axes = _axes()
    for (name, values), colour in zip(series, _COLOURS, strict=False):
        axes.plot(range(len(labels)), values, color=colour, label=name)
    if level is not None:
        axes.axhline(level[1], color=_GREY, linestyle="--", label=level[0])
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color="#e3e3e3")
    figure.legend(loc="upper left", ncols=3, frameon=False, fontsize=9)
    return _drawn(figure, axes, labels, title)


def _axes() -> tuple[Figure, Axes]:
    figure = Figure(figsize=_SIZE_IN)
    axes = figure.add_axes((0.08, 0.14, 0.91, 0.72))
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(labelsize=8, length=0)
    return figure, axes


def _drawn(figure: Figure, axes: Axes, labels: Sequence[str], title: str) -> Markup:
    every = max(1, -(-len(labels) // _MOST_LABELS))
    axes.set_xticks(range(0, len(labels), every), labels[::every])
    return inline_svg(figure, title)
