"""The verdict for people: a page, the policies' table, and two plots."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from foundation.csv_files import write_rows
from foundation.markdown import markdown_table, markdown_text
from simulator.gate.limits import number, quantity
from simulator.gate.metrics import MeasuredWindow, PolicyFigures, ReplayResult, SharedJobs, align
from simulator.gate.verdict import Constraint, Verdict
from simulator.wait_fidelity.tables import grade_page

COLUMNS: Mapping[str, str] = {
    "policy": "policy",
    "mean_jct_s": "mean JCT (s)",
    "mean_queuing_delay_s": "mean queuing (s)",
    "p99_queuing_delay_s": "P99 queuing (s)",
    "p999_queuing_delay_s": "P99.9 queuing (s)",
    "longest_wait_s": "longest wait (s)",
    "starved_jobs": "starved jobs",
    "mean_slowdown": "mean slowdown",
    "utilisation_pct": "work done (% of GPU-hours)",
    "preemptions": "preemptions",
    "colocated_jobs": "colocated jobs",
    "predicted_jobs": "ends predicted",
    "mean_pred_err_pct": "mean prediction error (%)",
    "p99_pred_err_pct": "P99 prediction error (%)",
}
QUEUING_FILE = "queuing_by_virtual_cluster.csv"
_CLUSTERS_SHOWN = 16
_TICKS_S = {0.0: "0", 1.0: "1 s", 10.0: "10 s", 60.0: "1 min", 600.0: "10 min", 3_600.0: "1 h",
            86_400.0: "1 day", 864_000.0: "10 days", 8_640_000.0: "100 days"}  # fmt: skip


def write_report(
    verdict: Verdict,
    results: Mapping[str, ReplayResult],
    out_dir: Path,
    *,
    window: MeasuredWindow | None = None,
) -> list[Path]:
    """Write verdict.json, verdict.md, policies.csv, policies.md, the queuing by virtual cluster and the
    plots; returns their paths.

    Without results (a challenger that could not be replayed) there are only the first two.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    texts = {"verdict.json": verdict.to_json(), "verdict.md": verdict_page(verdict)}
    if results:
        texts["policies.md"] = policies_table(verdict.policies)
    paths = []
    for name, text in texts.items():
        path = out_dir / name
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    if not results:
        return paths
    table = out_dir / "policies.csv"
    with table.open("w", encoding="utf-8", newline="") as file:
        write_rows(verdict.policies, list(verdict.policies[0]), file)
    shared, figures = align(results, window)
    order = [str(row["policy"]) for row in verdict.policies if row["policy"] in figures]
    figures = {name: figures[name] for name in order}
    by_cluster = out_dir / QUEUING_FILE
    with by_cluster.open("w", encoding="utf-8", newline="") as file:
        write_rows(queuing_by_virtual_cluster(figures, shared), ["virtual_cluster", "jobs", *figures], file)
    return [
        *paths,
        table,
        by_cluster,
        plot_jct_cdf(figures, out_dir / "jct_cdf.png"),
        plot_queuing_by_virtual_cluster(figures, shared, out_dir / "queuing_by_virtual_cluster.png"),
    ]


def policies_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The policies' table in Markdown."""
    shown = {key: title for key, title in COLUMNS.items() if any(row.get(key) is not None for row in rows)}
    cells = [[_cell(row.get(key)) for key in shown] for row in rows]
    return markdown_table(list(shown.values()), cells, align_numbers=False) + "\n"


def verdict_page(verdict: Verdict) -> str:
    """One page in Markdown: the sentence, what blocks, the constraints, the policies, wins and losses."""
    subject = [
        f"- {key.replace('_', ' ')}: {_subject_text(value)}"
        for key, value in verdict.subject.items()
        if value is not None
    ]
    remarkable = (*verdict.failed, *verdict.not_measured)
    constraints = [
        f"| {c.name} | {_mark(c)} | {_figure(c.challenger, c.unit)} | {_figure(c.reference, c.unit)} "
        f"| {_figure(c.limit, c.unit)} |"
        for c in verdict.constraints
    ]
    compared = [
        (row["policy"], row["outcome"], _change(row, str(verdict.objective["unit"])))
        for row in sorted(verdict.comparisons, key=lambda r: (r["outcome"] != "worse", str(r["policy"])))
    ]
    rules = ", ".join(f"{name} {value}" for name, value in verdict.rules.items())
    word = "approved" if verdict.approved else "refused"
    parts = [
        f"# Study: {word}" if verdict.study else f"# {word.capitalize()}",
        verdict.sentence,
        *(["\n".join(subject)] if subject else []),
        "## Constraints",
        f"| constraint | | challenger | {verdict.reference} | limit |\n|"
        + " --- |" * 5
        + "\n"
        + "\n".join(constraints),
        *(["\n".join(f"- {markdown_text(c.sentence)}" for c in remarkable)] if remarkable else []),
    ]
    if verdict.policies:
        parts += ["## Policies on the held-out window", policies_table(verdict.policies).rstrip()]
    if compared:
        parts += [
            f"## The challenger's {verdict.objective['name']} beside each policy",
            "A loss is a difference beyond the interval. SJF reads true durations, which no scheduler can.",
            markdown_table(
                ("policy", "the challenger is", "change (interval)"), compared, align_numbers=False
            ),
        ]
    if verdict.grade is not None:
        parts += ["## Waits of the replay beside those of the log", grade_page(verdict.grade)]
    if verdict.assumptions:
        assumptions = (f"- {markdown_text(assumption)}" for assumption in verdict.assumptions)
        parts += ["## Assumptions", "\n".join(assumptions)]
    parts += ["## Rules", rules]
    return "\n\n".join(parts) + "\n"


def plot_jct_cdf(figures: Mapping[str, PolicyFigures], path: Path) -> Path:
    """Share of jobs completed within a time, by policy (Lucid, Figure 8)."""
    from foundation.png_figures import new_figure, save_figure

    figure = new_figure(7, 4.5)
    axes = figure.subplots()
    for index, (name, one) in enumerate(figures.items()):
        jct = np.sort(np.maximum(one.jct_s[one.finished], 1.0))
        if jct.size:
            share = np.arange(1, jct.size + 1) / jct.size
            axes.plot(jct, 100.0 * share, label=name, linewidth=2.2 if index == 0 else 1.2, zorder=10 - index)
    axes.set_xscale("log")
    _time_ticks(axes.xaxis)
    axes.set_title("Jobs that are completed within a time of their submission")
    axes.set_xlabel("job completion time")
    axes.set_ylabel("jobs (%)")
    axes.set_ylim(0, 100)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    return save_figure(figure, path)


def queuing_by_virtual_cluster(
    figures: Mapping[str, PolicyFigures], shared: SharedJobs
) -> list[dict[str, Any]]:
    """Mean queuing delay (s) of each policy by virtual cluster, those with most jobs first."""
    names, codes = np.unique(shared.virtual_cluster.astype(str), return_inverse=True)
    jobs = np.bincount(codes, minlength=names.size)
    waits = {
        name: np.bincount(
            codes, weights=np.where(one.finished, one.queuing_delay_s, 0.0), minlength=names.size
        )
        / np.maximum(jobs, 1)
        for name, one in figures.items()
    }
    return [
        {
            "virtual_cluster": str(names[i]),
            "jobs": int(jobs[i]),
            **{name: float(mean[i]) for name, mean in waits.items()},
        }
        for i in np.argsort(-jobs, kind="stable")
    ]


def plot_queuing_by_virtual_cluster(
    figures: Mapping[str, PolicyFigures], shared: SharedJobs, path: Path
) -> Path:
    """Mean queuing delay by virtual cluster and policy (Lucid, Figure 9); the busiest clusters only."""
    from foundation.png_figures import new_figure, save_figure

    rows = queuing_by_virtual_cluster(figures, shared)[:_CLUSTERS_SHOWN]
    figure = new_figure(max(6.0, 0.7 * len(rows) + 2), 4.5)
    axes = figure.subplots()
    width = 0.8 / max(len(figures), 1)
    places = np.arange(len(rows))
    for index, name in enumerate(figures):
        axes.bar(places + index * width, [row[name] for row in rows], width, label=name)
    names = [row["virtual_cluster"] for row in rows]
    axes.set_xticks(places + 0.4 - width / 2, names, rotation=45, ha="right")
    axes.set_title("How long jobs of each virtual cluster wait")
    axes.set_ylabel("mean queuing delay")
    axes.set_yscale("symlog", linthresh=10.0)
    _time_ticks(axes.yaxis, linear_below_s=10.0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("virtual cluster")
    axes.grid(axis="y", alpha=0.3)
    figure.legend(loc="outside right upper", fontsize="small")
    return save_figure(figure, path)


def _time_ticks(axis: Any, *, linear_below_s: float = 0.0) -> None:
    """Label an axis of seconds as people say times; where it is linear only its zero."""
    from matplotlib.ticker import FixedLocator, NullLocator

    axis.set_major_locator(FixedLocator([tick for tick in _TICKS_S if not 0 < tick < linear_below_s]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda seconds, _: _TICKS_S.get(seconds, ""))


def _subject_text(value: Any) -> str:
    """A value of the subject; a time to the minute."""
    text = str(value)
    try:
        moment = datetime.fromisoformat(text) if "T" in text else None
    except ValueError:
        moment = None
    return markdown_text(text) if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return number(value) if isinstance(value, int | float) else str(value)


def _mark(constraint: Constraint) -> str:
    return {True: "passed", False: "**BLOCKS**", None: "not measured"}[constraint.passed]


def _figure(value: float | None, unit: str) -> str:
    return "" if value is None else f"{quantity(value, unit)}"


def _change(row: Mapping[str, Any], unit: str) -> str:
    if row["change_pct"] is None:
        return f"{quantity(row['challenger'], unit)} against {quantity(row['other'], unit)}"
    if row["change_low_pct"] is None:
        return f"{row['change_pct']:+z.1f} %"
    return f"{row['change_pct']:+z.1f} % ({row['change_low_pct']:+z.1f} to {row['change_high_pct']:+z.1f} %)"
