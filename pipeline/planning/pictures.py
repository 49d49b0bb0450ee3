"""The pictures of a plan: waits against nodes, waits against energy, virtual clusters."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from foundation.themed_pictures import INK, SERIES, dress, themed_svg
from pipeline.planning.answers import PlanAnswer
from pipeline.planning.wait_target import WaitTarget

_SIZE_IN = (6.0, 3.4)
_LINES = ("-", "--", ":", "-.")
_LINEAR_TO_S = 10.0  # up to it the scale of waits is linear, so that 0 has a place
_TICKS = {0: "0", 10: "10 s", 60: "1 min", 600: "10 min", 3_600: "1 h", 36_000: "10 h", 864_000: "10 d"}

Row = Mapping[str, Any]


def draw_plan(rows: Sequence[Row], answers: Sequence[PlanAnswer], target: WaitTarget) -> dict[str, Markup]:
    """Return the pictures by name, each an SVG element in CSS variables; those without anything are left
    out.
    """
    pictures = {"waits": _waits(rows, target), "energy": _energy(rows, target)}
    virtual_clusters = [each for each in answers if each.kind == "nodes" and "independent" in each.figures]
    own = [each for each in virtual_clusters if "virtual_clusters" not in each.figures]
    if own:
        pictures["virtual_clusters"] = _virtual_clusters(own)
    with mpl.rc_context({"text.parse_math": False}):  # names are no formulas
        return {name: themed_svg(figure, name.replace("_", " ")) for name, figure in pictures.items()}


def _axes(height_in: float = _SIZE_IN[1]) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(_SIZE_IN[0], height_in), layout="constrained")
    figure.patch.set_alpha(0)
    return figure, figure.subplots()


def _by_variant(rows: Sequence[Row]) -> dict[str, list[Row]]:
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(row["variant"], []).append(row)
    return by_name


def _waits(rows: Sequence[Row], target: WaitTarget) -> Figure:
    figure, axes = _axes()
    dress(axes, "nodes", target.words)
    for number, (name, own) in enumerate(_by_variant(rows).items()):
        colour, line = _style(number)
        nodes = [row["nodes"] for row in own]
        axes.plot(nodes, [row[target.column] for row in own], line, color=colour, label=name, linewidth=1.4)
        if own[0]["low"] is not None:
            bounds = ([row["low"] for row in own], [row["high"] for row in own])
            axes.fill_between(nodes, *bounds, color=colour, alpha=0.15, linewidth=0)
    axes.axhline(target.limit_s, color=INK, linewidth=0.8, linestyle=":")
    _scale_and_legend(axes, rows, target)
    return figure


def _energy(rows: Sequence[Row], target: WaitTarget) -> Figure:
    figure, axes = _axes()
    dress(axes, "energy of powered nodes, MWh", target.words)
    for number, (name, own) in enumerate(_by_variant(rows).items()):
        colour, _ = _style(number)
        for chosen, marker, alpha in ((True, "o", 1.0), (False, ".", 0.35)):
            points = [(row["kwh"] / 1_000, row[target.column]) for row in own if row["on_front"] is chosen]
            if points:
                label = name if chosen else None
                xs, ys = zip(*points, strict=True)
                axes.plot(xs, ys, marker, color=colour, markersize=4, alpha=alpha, label=label)
    axes.axhline(target.limit_s, color=INK, linewidth=0.8, linestyle=":")
    _scale_and_legend(axes, rows, target)
    return figure


def _scale_and_legend(axes: Axes, rows: Sequence[Row], target: WaitTarget) -> None:
    """Scale waits by their logarithms, with room for 0, and name the variants above the picture."""
    highest_s = max([target.limit_s, *(row[target.column] for row in rows)])
    axes.set_yscale("symlog", linthresh=_LINEAR_TO_S)
    axes.set_yticks(list(_TICKS), list(_TICKS.values()))
    axes.minorticks_off()
    axes.set_ylim(-0.2 * _LINEAR_TO_S, 1.5 * max(highest_s, _LINEAR_TO_S))
    axes.legend(
        frameon=False, fontsize=8, labelcolor=INK, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2
    )


def _virtual_clusters(answers: Sequence[PlanAnswer]) -> Figure:
    figure, axes = _axes(1.0 + 0.32 * len(answers))
    dress(axes, "nodes", "")
    axes.grid(visible=False)
    places = np.arange(len(answers))[::-1]
    for offset, key, colour, label in (
        (0.2, "present_nodes", SERIES[0], "at present"),
        (-0.2, "nodes", SERIES[1], "least that keep the limit"),
    ):
        counts = [each.figures[key] or 0 for each in answers]
        axes.barh(places + offset, counts, 0.38, color=colour, label=label)
    axes.set_yticks(places, [_short(each.pool) for each in answers])
    axes.legend(
        frameon=False, fontsize=8, labelcolor=INK, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2
    )
    return figure


def _style(number: int) -> tuple[str, str]:
    return SERIES[number % len(SERIES)], _LINES[number // len(SERIES) % len(_LINES)]


def _short(name: str, most: int = 20) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
