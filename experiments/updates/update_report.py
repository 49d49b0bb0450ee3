"""The result of `lucid replay-updates` as files: tables, a page of them in Markdown, plots."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from experiments.reproduction.report import png
from experiments.updates.update_replay import FROZEN, LIVE, ORACLE
from foundation.csv_files import write_rows
from foundation.jsonable import to_jsonable
from foundation.markdown import markdown_frame, number

HOUR_S = 3_600.0
UPDATES, OVER_TIME, THROUGHPUT = "updates", "over_time", "throughput"
PAGE, PLOT = "updates.md", "updates.png"
_COLOURS: Mapping[str, str] = {
    "never": "#777777",
    "monthly": "#8e5ea2",
    "weekly": "#2563a8",
    "daily": "#c2681f",
}


def write_updates(document: Mapping[str, Any], out_dir: Path) -> list[Path]:
    """Write updates.json, a CSV a table, updates.md and updates.png; return the files."""
    out_dir.mkdir(parents=True, exist_ok=True)
    files = [out_dir / "updates.json"]
    files[0].write_text(json.dumps(to_jsonable(document), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    for name in (UPDATES, OVER_TIME, THROUGHPUT):
        rows: Sequence[Mapping[str, Any]] = document[name]
        if rows:
            files.append(out_dir / f"{name}.csv")
            with files[-1].open("w", encoding="utf-8", newline="") as stream:
                write_rows(({**dict.fromkeys(rows[0]), **row} for row in rows), list(rows[0]), stream)
    files.append(out_dir / PAGE)
    files[-1].write_text(updates_markdown(document), encoding="utf-8")
    if document[OVER_TIME]:
        files.append(out_dir / PLOT)
        files[-1].write_bytes(png(draw_updates(document[UPDATES], document[OVER_TIME])))
    return files


def updates_markdown(document: Mapping[str, Any]) -> str:
    """Return the tables with their remarks."""
    parts = []
    if document[UPDATES]:
        parts.append(markdown_frame(pd.DataFrame(shown_updates(document[UPDATES]))))
    if document[THROUGHPUT]:
        parts.append(markdown_frame(pd.DataFrame(shown_throughput(document[THROUGHPUT]))))
    parts.append("\n".join(f"- {remark}" for remark in document["remarks"]))
    return "\n\n".join(parts) + "\n"


def shown_updates(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Rows for people: error, order, coverage, and what the queue makes of it."""
    shown = []
    for row in rows:
        line = {
            "models updated": str(row["interval"]),
            "statistics": str(row["statistics"]),
            "fits": str(row["fits"] or ""),
            "error of log10": number(row.get("mae_log10"), 3),
            "tau": number(row.get("kendall_tau"), 3),
            "within P90": number(row.get("coverage_p90"), 3),
        }
        if "mean_queuing_delay_s" in row:
            change = row["queue_change_pct"]
            interval = ""
            if change is not None and row["queue_change_low_pct"] is not None:
                interval = f" ({row['queue_change_low_pct']:+.1f} to {row['queue_change_high_pct']:+.1f})"
            line |= {
                "mean queue, h": number(row["mean_queuing_delay_s"] / HOUR_S, 3),
                "queue against static, %": ("–" if change is None else f"{change:+.1f}") + interval,
                "mean JCT, h": number(row["mean_jct_s"] / HOUR_S, 3),
            }
        shown.append(line)
    return shown


def shown_throughput(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Rows for people, with the change against the static model."""
    static = {row["series"]: row["mae"] for row in rows if row["interval"] == "never"}
    return [
        {
            "series": str(row["series"]),
            "models updated": str(row["interval"]),
            "fits": str(row["fits"]),
            "MAE": f"{row['mae']:.3f}",
            "against static, %": f"{100 * (row['mae'] / static[row['series']] - 1):+.1f}",
            "naive (rolling median 12)": f"{row['naive_mae']:.3f}",
        }
        for row in rows
    ]


def draw_updates(rows: Sequence[Mapping[str, Any]], over_time: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw the error week by week, and the mean queue of each interval where it was simulated."""
    simulated = [row for row in rows if "mean_queuing_delay_s" in row]
    figure = Figure(figsize=(9, 7 if simulated else 4), layout="constrained")
    axes = figure.subplots(2 if simulated else 1, 1, squeeze=False)[:, 0]
    for interval, colour in _COLOURS.items():
        for kind, style in ((FROZEN, "--"), (LIVE, "-")):
            mine = [row for row in over_time if (row["interval"], row["statistics"]) == (interval, kind)]
            if mine:
                axes[0].plot(
                    [row["week_of"][5:] for row in mine],
                    [row["mae_log10"] for row in mine],
                    style,
                    color=colour,
                    label=f"{interval}, {kind}",
                )
    axes[0].set_ylabel("mean error of log10 run time")
    axes[0].set_xlabel("week of submission")
    axes[0].set_ylim(bottom=0)
    axes[0].tick_params(axis="x", labelrotation=45)
    axes[0].legend(ncols=2, fontsize=8, frameon=False)
    if simulated:
        names = [", ".join(filter(None, (row["interval"], row["statistics"]))) for row in simulated]
        colours = [_COLOURS.get(row["interval"], "#2e7d4f") for row in simulated]
        queue_h = [row["mean_queuing_delay_s"] / HOUR_S for row in simulated]
        bars = axes[1].barh(names, queue_h, color=colours)
        axes[1].bar_label(bars, fmt="%.3g", padding=3, fontsize=8)
        for bar, row in zip(bars, simulated, strict=True):
            if row["statistics"] == FROZEN or row["interval"] == ORACLE:
                bar.set_alpha(0.55)
        axes[1].invert_yaxis()
        axes[1].set_xlabel("mean queuing delay (h) under Lucid")
    return figure
