"""What a replay of sleeping nodes leaves behind: bins.csv, nodes.png, replay.json."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from foundation.csv_files import write_rows
from foundation.jsonable import to_jsonable
from parts.node_sleep.replay.control import BIN_S
from parts.node_sleep.replay.demand_window import DemandWindow
from parts.node_sleep.replay.timeline import SleepTimeline

COLUMNS = ("time", "running", "total", "forecast", "active", "booting", "node_minutes_short")
BINS_FILE, PICTURE_FILE, REPORT_FILE = "bins.csv", "nodes.png", "replay.json"


def write_replay(
    out_dir: Path,
    document: Mapping[str, Any],
    timeline: SleepTimeline,
    window: DemandWindow,
    forecast: Sequence[float | None],
    *,
    zone: ZoneInfo,
) -> list[Path]:
    """Write the files and return them.

    A bin's nodes are those of its last step, running ones those of its highest. `forecast` has a value a bin,
    None where there was none; node_minutes_short is blank where nodes do not boot.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    steps = round(BIN_S / timeline.step_s)

    def last(values: NDArray[np.int64]) -> NDArray[np.int64]:
        return values.reshape(-1, steps)[:, -1]

    unserved = timeline.unserved
    short = None if unserved is None else unserved.reshape(-1, steps).sum(axis=1) * timeline.step_s / 60
    running = window.bins.running[window.bins_before :]
    total = window.bins.total[window.bins_before :]
    rows = [
        {
            "time": datetime.fromtimestamp(window.start_s + at * BIN_S, UTC)
            .astimezone(zone)
            .strftime("%Y-%m-%d %H:%M:%S"),
            "running": int(running[at]),
            "total": int(total[at]),
            "forecast": "" if forecast[at] is None else forecast[at],
            "active": active,
            "booting": booting,
            "node_minutes_short": "" if short is None else float(short[at]),
        }
        for at, (active, booting) in enumerate(
            zip(last(timeline.awake).tolist(), last(timeline.booting).tolist(), strict=True)
        )
    ]
    text = StringIO()
    write_rows(rows, COLUMNS, text)
    (out_dir / BINS_FILE).write_text(text.getvalue(), encoding="utf-8")
    report = json.dumps(to_jsonable(document), indent=2, allow_nan=False)
    (out_dir / REPORT_FILE).write_text(report + "\n", encoding="utf-8")
    _draw(out_dir / PICTURE_FILE, rows, document)
    return [out_dir / name for name in (BINS_FILE, PICTURE_FILE, REPORT_FILE)]


def _draw(path: Path, rows: Sequence[Mapping[str, Any]], document: Mapping[str, Any]) -> None:
    # Loading matplotlib takes longer than a replay.
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    from foundation.png_figures import new_figure, save_figure

    times: Any = np.array([row["time"] for row in rows], dtype="datetime64[s]")
    series = {name: np.array([row[name] for row in rows]) for name in ("total", "active", "running")}
    figure = new_figure(11, 4.2)
    axes = figure.subplots()
    axes.step(times, series["total"], where="post", color="#777777", linewidth=1, label="all nodes")
    axes.step(times, series["active"], where="post", color="#c77700", linewidth=1.2, label="awake")
    axes.step(times, series["running"], where="post", color="#2563a8", linewidth=1.2, label="running jobs")
    axes.fill_between(
        times, series["active"], series["total"], step="post", color="#dddddd", label="asleep or booting"
    )
    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.set_ylim(bottom=0)
    axes.set_ylabel("nodes")
    axes.set_title(
        f"{document['control']}: {document['asleep_mean']:.1f} nodes asleep, "
        f"{document['wake_ups_per_day']:.2f} wake-ups a day"
    )
    axes.legend(loc="lower left", ncols=4, frameon=False)
    save_figure(figure, path)
