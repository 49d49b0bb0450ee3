"""The pictures of a characterisation: one SVG a figure, for light and dark alike."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from foundation.themed_pictures import GRID, INK, SERIES, dress, themed_svg

_SIZE_IN = (6.0, 3.0)
_TALL_IN = (6.0, 4.6)
_MOST_TICKS = 12
_DURATION_TICKS = {1: "1 s", 60: "1 min", 3_600: "1 h", 86_400: "1 d", 864_000: "10 d"}

Painter = Callable[[Axes, pd.DataFrame], None]


@dataclass(frozen=True)
class Picture:
    """How a figure is painted, and what its axes say."""

    paint: Painter
    x: str
    y: str
    second: "Picture | None" = None  # below the first, over the same x


def _legend(axes: Axes, count: int) -> None:
    if count > 1:
        axes.legend(frameon=False, fontsize=8, labelcolor=INK, loc="best")


def _label(column: str) -> str:
    return column.removesuffix("_pct").removesuffix("_scaled").replace("_", " ").replace("gpu", "GPU")


def _durations(axes: Axes, frame: pd.DataFrame) -> None:
    for name, colour in zip(frame, SERIES, strict=False):
        axes.plot(frame.index, frame[name], color=colour, label=_label(str(name)))
    axes.set_xscale("log")
    axes.set_xticks(list(_DURATION_TICKS), list(_DURATION_TICKS.values()))
    axes.minorticks_off()
    axes.set_ylim(0, 101)


def _line(axes: Axes, frame: pd.DataFrame, *, lowest: float | None = 0.0) -> None:
    for name, colour in zip(frame, SERIES, strict=False):
        places = np.arange(len(frame))
        axes.plot(places, frame[name], color=colour, marker="o", markersize=3, label=_label(str(name)))
    _ticks(axes, frame)
    axes.margins(y=0.08)
    axes.set_ylim(bottom=lowest)
    _legend(axes, len(frame.columns))


def _bars(axes: Axes, frame: pd.DataFrame) -> None:
    width = 0.8 / max(1, len(frame.columns))
    places = np.arange(len(frame))
    for number, (name, colour) in enumerate(zip(frame, SERIES, strict=False)):
        axes.bar(
            places - 0.4 + (number + 0.5) * width, frame[name], width, color=colour, label=_label(str(name))
        )
    _ticks(axes, frame)
    _legend(axes, len(frame.columns))


def _stacked(axes: Axes, frame: pd.DataFrame) -> None:
    below = np.zeros(len(frame))
    for name, colour in zip(frame, SERIES, strict=False):
        heights = frame[name].fillna(0.0).to_numpy(dtype=float)
        axes.bar(np.arange(len(frame)), heights, 0.8, bottom=below, color=colour, label=_label(str(name)))
        below += heights
    _ticks(axes, frame)
    axes.legend(
        frameon=False, fontsize=8, labelcolor=INK, loc="upper center", bbox_to_anchor=(0.5, 1.16), ncols=3
    )


def _curve(axes: Axes, frame: pd.DataFrame) -> None:
    axes.plot([0, 100], [0, 100], color=GRID, linestyle="--")
    column = frame.columns[0]
    axes.plot(
        frame.index, frame[column], color=SERIES[0], marker="o" if len(frame) < 30 else "", markersize=3
    )
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 101)


def _months(axes: Axes, frame: pd.DataFrame) -> None:
    by_size = [name for name in ("multi_gpu_jobs", "single_gpu_jobs") if name in frame]
    _stacked(axes, frame[by_size]) if by_size else _bars(axes, frame[["gpu_jobs"]])


def _month_utilisation(axes: Axes, frame: pd.DataFrame) -> None:
    _line(axes, frame[[name for name in frame if str(name).endswith("utilisation_pct")]])


def _boxes(axes: Axes, frame: pd.DataFrame) -> None:
    ends = {
        "whislo": "whisker_low_pct",
        "q1": "q1_pct",
        "med": "median_pct",
        "q3": "q3_pct",
        "whishi": "whisker_high_pct",
    }
    measured = frame.dropna(subset=list(ends.values()))
    boxes = [{end: float(row[column]) for end, column in ends.items()} for _, row in measured.iterrows()]
    lines = {"color": INK, "linewidth": 0.9}
    axes.bxp(
        boxes,
        positions=np.flatnonzero(frame["q1_pct"].notna()),
        showfliers=False,
        patch_artist=True,
        boxprops={"facecolor": SERIES[0], "edgecolor": INK, "linewidth": 0.9},
        medianprops={"color": SERIES[1], "linewidth": 1.6},
        whiskerprops=lines,
        capprops=lines,
    )
    _ticks(axes, frame, every=1)
    axes.set_ylim(0, 102)


def _delays(axes: Axes, frame: pd.DataFrame) -> None:
    _bars(axes, frame[["duration_scaled", "queuing_delay_scaled"]])
    _ticks(axes, frame, every=1)


def _ticks(axes: Axes, frame: pd.DataFrame, every: int | None = None) -> None:
    step = every or max(1, -(-len(frame) // _MOST_TICKS))
    names = [_short(f"{name:g}" if isinstance(name, float) else str(name)) for name in frame.index[::step]]
    axes.set_xticks(
        range(0, len(frame), step), names, rotation=30 if max(map(len, names), default=0) > 6 else 0
    )


def _short(name: str, most: int = 14) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


_HOUR, _TOP = "hour of day", "top users, %"
_DELAYS = Picture(_delays, "virtual cluster", "scaled 0 to 1")
_UTILISATION = Picture(_month_utilisation, "month", "utilisation, %")
PICTURES: Mapping[str, Picture] = {
    "fig1a": Picture(_durations, "duration", "GPU jobs that run for at most that, %"),
    "fig1b": Picture(_bars, "final state", "GPU time, %"),
    "fig2a": Picture(lambda axes, frame: _line(axes, frame, lowest=None), _HOUR, "mean utilisation, %"),
    "fig2b": Picture(lambda axes, frame: _bars(axes, frame[["gpu_jobs_per_h"]]), _HOUR, "GPU jobs per hour"),
    "fig3": Picture(_months, "month", "GPU jobs submitted", _UTILISATION),
    "fig4": Picture(_boxes, "virtual cluster", "utilisation by minute, %", _DELAYS),
    "fig5a": Picture(_durations, "duration", "GPU jobs that run for at most that, %"),
    "fig5b": Picture(_durations, "duration", "CPU jobs that run for at most that, %"),
    "fig6a": Picture(_line, "GPUs of a job, at most", "GPU jobs, %"),
    "fig6b": Picture(_line, "GPUs of a job, at most", "GPU time, %"),
    "fig7a": Picture(_bars, "final state", "jobs, %"),
    "fig7b": Picture(_stacked, "GPUs of a job", "GPU jobs, %"),
    "fig8a": Picture(_curve, _TOP, "GPU time, %"),
    "fig8b": Picture(_curve, _TOP, "CPU time of CPU jobs, %"),
    "fig9a": Picture(_curve, _TOP, "queuing time of GPU jobs, %"),
    "fig9b": Picture(_bars, "completed GPU jobs of a user, from %", "users"),
    "lorenz_users": Picture(_curve, "users that hold least, %", "GPU time, %"),
    "lorenz_virtual_clusters": Picture(_curve, "virtual clusters that hold least, %", "GPU time, %"),
}
_COLUMNS = {"fig4": ("q1_pct", "duration_scaled"), "fig3": ("gpu_jobs", "utilisation_pct")}


def draw(key: str, title: str, frame: pd.DataFrame) -> Markup:
    """The picture of a figure as an SVG element in CSS variables; nothing for a figure without rows."""
    pictures = _shown(key, frame)
    if frame.empty or not pictures:
        return Markup()
    figure = Figure(figsize=_TALL_IN if len(pictures) > 1 else _SIZE_IN, layout="constrained")
    figure.patch.set_alpha(0)
    for axes, picture in zip(figure.subplots(len(pictures), squeeze=False)[:, 0], pictures, strict=True):
        dress(axes, picture.x, picture.y)
        picture.paint(axes, frame)
    return themed_svg(figure, f"{key}: {title}")


def _shown(key: str, frame: pd.DataFrame) -> list[Picture]:
    """The first and the second picture of a figure, those with all of their columns."""
    picture = PICTURES[key]
    both = [picture] if picture.second is None else [picture, picture.second]
    needed = _COLUMNS.get(key, ("", ""))
    return [each for each, column in zip(both, needed, strict=False) if not column or column in frame]
