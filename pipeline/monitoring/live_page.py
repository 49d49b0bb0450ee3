"""The part of the monitoring page that a live scheduler's own records fill."""

from html import escape

from live_scheduler.hindsight.replayed_window import Regret
from pipeline.monitoring import charts
from pipeline.monitoring.live import LiveHealth, window_of
from pipeline.monitoring.live_promises import PromiseHealth
from pipeline.monitoring.page_parts import figures, first_upper, interval, number, table


def live_part(health: LiveHealth | None) -> str:
    """Show what a live scheduler's own records say."""
    if health is None:
        return ""
    parts = [f"<h2>Live scheduler</h2><p>{escape(health.source)}</p>"]
    if health.note:
        parts.append(f'<p class="note">{escape(first_upper(health.note))}.</p>')
    if health.errors is not None:
        rows = [
            (
                group.name,
                f"{group.jobs:,}",
                *figures(group.mae_log10, group.naive_mae_log10, group.kendall_tau, group.coverage_p50),
            )
            for group in (health.errors, *health.virtual_clusters)
        ]
        head = ("virtual cluster", "jobs", "error", f"naive ({health.naive})", "tau", "within P50")
        parts.append("<p>What was believed when jobs were first ranked, beside how long they ran.</p>")
        parts.append(table(head, rows))
        parts.append(f"<p>{interval('Against validation', health.against_validation)}")
        parts.append(f"{interval('Against the naive rival', health.against_naive)}</p>")
    past = health.hindsight
    if past is not None:
        rows = [
            (name, number(figures.mean_jct_s, 0), number(figures.mean_queuing_delay_s, 0))
            for name, figures in (
                ("measured", past.measured),
                (f"replayed: {past.policy}, as believed", past.live),
                ("replayed: first come, first served, backfilled", past.backfill),
                (f"replayed: {past.policy}, true run times", past.true_durations),
            )
        ]
        parts.append(f"<p>{past.jobs:,} jobs, {window_of(past)}</p>")
        parts.append(table(("", "mean JCT, s", "mean queuing delay, s"), rows))
        parts.append(f"<p>{_regret('first come, first served', past.against_backfill)} ")
        parts.append(f"{_regret('true run times', past.against_true_durations)}</p>")
    parts.append(_promises(health.promises))
    if health.agreement is not None and health.agreement.share is not None:
        found = health.agreement
        parts.append(
            f"<p>Of {found.started:,} jobs that started, the policy would have started "
            f"{health.agreement.share:.0%} by then.</p>"
        )
    return "".join(parts)


def _promises(health: PromiseHealth | None) -> str:
    if health is None:
        return ""
    rows = [
        (
            group.policy,
            number(group.release_version, 0),
            group.virtual_cluster or "all",
            f"{group.errors.jobs:,}",
            number(group.errors.mean_pct, 1),
            number(group.errors.p99_pct, 1),
            f"{group.errors.by_promise:.0%}",
            f"{group.errors.by_p90:.0%}",
            f"{group.errors.late:,}",
        )
        for group in health.groups
    ]
    head = ("policy", "release", "virtual cluster", "jobs", "error, % on average", "P99", "ended by then")
    expected = (health.expected or {}).get("mean_pred_err_pct")
    level = None if expected is None else ("promised by the gate", expected)
    return (
        "<h3>Completion times told at submission</h3><p>Beside the true ends, in percent of the told time; "
        "jobs that were told late do not count.</p>"
        + table((*head, "ended by their P90", "told late"), rows)
        + f"<p>{interval('Against what the gate promised', health.against_gate)}</p>"
        + charts.lines(
            [day.day[5:] for day in health.days],
            [("mean error, %", [day.mean_pct for day in health.days])],
            "error of completion times told at submission, by day of the end",
            level,
        )
    )


def _regret(other: str, regret: Regret) -> str:
    interval = ""
    if regret.low_s is not None and regret.high_s is not None:
        interval = f" ({regret.low_s:+,.0f} to {regret.high_s:+,.0f})"
    return f"Regret against {other}: {regret.point_s:+,.0f} s{interval}."
