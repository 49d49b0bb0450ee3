"""What was measured on GPUs, for docs/profiling.md: `python -m experiments.profiling.measured_page`.

It reads the measurement tables that are kept beside the page.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from experiments.pages import publish
from foundation.markdown import markdown_frame, number
from profiler_jobs.measurement_table import MEASURED, read_measurements
from profiler_jobs.summary import summarise

PAGE = Path("docs/profiling.md")
TABLES = {
    "measured_h200": Path("docs/measurements/nvidia_h200.parquet"),
    "measured_h100": Path("docs/measurements/nvidia_h100.parquet"),
}


def measured_section(table: Path) -> str:
    """Return what a device said: configurations alone, pairs that can be trusted, and how it was measured."""
    rows = read_measurements(str(table))
    profiles = summarise(rows)
    trusted = set(profiles.solo["job_type"])
    alone = rows[rows["job_type_2"].isna() & (rows["outcome"] == MEASURED)]
    shown = []
    for name, windows in alone.groupby("task", sort=False):
        speeds = windows["speed_1"].to_numpy(float)
        shown.append(
            {
                "configuration": str(name),
                "windows": f"{len(windows)}",
                "slowest of fastest, %": number(100 * speeds.min() / speeds.max(), 1),
                "GPU, %": _span(windows["gpu_util_pct"]),
                "memory traffic, %": _span(windows["gpu_mem_util_pct"]),
                "memory, MiB": number(float(windows["gpu_mem_mib"].max()), 0),
                "trusted": "yes" if name in trusted else "no",
            }
        )
    shown.sort(key=lambda row: -float(str(row["slowest of fastest, %"])))
    pairs = [
        {
            "pair": f"{row['job_type_1']} + {row['job_type_2']}",
            "speeds": f"{row['speed_1']:.3f}, {row['speed_2']:.3f}",
            "vary by, %": f"{100 * row['speed_cv_1']:.1f}, {100 * row['speed_cv_2']:.1f}",
            "GPU, %": number(row["gpu_util_pct"], 0),
        }
        for row in profiles.pairs.to_dict("records")
    ]
    first = rows.iloc[0]
    measured = rows.loc[rows["outcome"] == MEASURED, "task"].unique()
    held_back = sorted(set(filter(None, rows["throttle_reasons"])))
    cards, moments = rows["device_uuid"].nunique(), rows["started"].nunique()
    lengths_s = dict.fromkeys((rows["window_s"].min(), rows["window_s"].max()))
    origin = (
        f"{first['device']}, {'one card' if cards == 1 else f'{cards} cards'}, driver {first['driver']}, "
        f"{first['sharing_mode']}, SM clock {_span(rows['sm_clock_mhz'].dropna())} MHz, clocks held back by "
        f"{', '.join(held_back) or 'nothing'}; {rows['started'].min():%d %B %Y}, {moments:,} windows of "
        f"{' to '.join(f'{length_s:g}' for length_s in lengths_s)} s of {len(measured)} tasks, "
        f"{len(profiles.solo) + len(profiles.pairs)} of them trusted; `{table}`."
    )
    return "\n\n".join((*(_table(rows) for rows in (shown, pairs) if rows), origin))


def _table(rows: list[dict[str, str]]) -> str:
    return markdown_frame(pd.DataFrame(rows))


def _span(values: "pd.Series[float]") -> str:
    low, high = np.nanmin(values), np.nanmax(values)
    return f"{low:.0f}" if round(low) == round(high) else f"{low:.0f} to {high:.0f}"


if __name__ == "__main__":
    publish({marker: measured_section(table) for marker, table in TABLES.items()}, PAGE)
