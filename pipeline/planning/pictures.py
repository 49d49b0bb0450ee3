"""The pictures of a plan: waits against nodes, waits against energy, virtual clusters."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from foundation.themed_pictures import INK, SERIES, dress, themed_svg
from pipeline.planning.questions import PlanAnswer
from pipeline.studies.wait_target import WaitTarget

_SIZE_IN = (6.0, 3.4)
_LINES = ("-", "--", ":", "-.")
_LINEAR_TO_S = 10.0  # up to it the scale of waits is linear, so that 0 has a place
_TICKS = {0: "0", 10: "10 s", 60: "1 min", 600: "10 min", 3_600: "1 h", 36_000: "10 h", 864_000: "10 d"}

Row = Mapping[str, Any]


def draw_plan(rows: Sequence[Row], answers: Sequence[PlanAnswer], target: WaitTarget) -> dict[str, Markup]:
    """Return the pictures by name, each an SVG element in CSS variables; those without anything are left
    out.
    """
    pictures = {
        "waits": _variants(rows, target, "nodes", _waits),
        "energy": _variants(rows, target, "energy of powered nodes, MWh", _energy),
    }
    by_pool = [
        answer
        for answer in answers
        if answer.kind == "nodes"
        and "independent" in answer.figures
        and "virtual_clusters" not in answer.figures
    ]
    if by_pool:
        pictures["virtual_clusters"] = _virtual_clusters(by_pool)
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


def _waits(axes: Axes, rows: Sequence[Row], column: str, number: int) -> None:
    colour, line = _style(number)
    nodes = [row["nodes"] for row in rows]
    waits_s = [row[column] for row in rows]
    axes.plot(nodes, waits_s, line, color=colour, label=rows[0]["variant"], linewidth=1.4)
    if rows[0]["low"] is not None:
        bounds = ([row["low"] for row in rows], [row["high"] for row in rows])
        axes.fill_between(nodes, *bounds, color=colour, alpha=0.15, linewidth=0)


def _energy(axes: Axes, rows: Sequence[Row], column: str, number: int) -> None:
    colour, _ = _style(number)
    for on_front, marker, alpha in ((True, "o", 1.0), (False, ".", 0.35)):
        points = [(row["kwh"] / 1_000, row[column]) for row in rows if row["on_front"] is on_front]
        if points:
            label = rows[0]["variant"] if on_front else None
            energy_mwh, waits_s = zip(*points, strict=True)
            axes.plot(energy_mwh, waits_s, marker, color=colour, markersize=4, alpha=alpha, label=label)


def _variants(
    rows: Sequence[Row],
    target: WaitTarget,
    x_label: str,
    draw: Callable[[Axes, Sequence[Row], str, int], None],
) -> Figure:
    """Draw each variant's rows, with the limit; waits by their logarithms, with room for 0."""
    figure, axes = _axes()
    dress(axes, x_label, target.words)
    for number, own in enumerate(_by_variant(rows).values()):
        draw(axes, own, target.column, number)
    axes.axhline(target.limit_s, color=INK, linewidth=0.8, linestyle=":")
    highest_s = max([target.limit_s, *(row[target.column] for row in rows)])
    axes.set_yscale("symlog", linthresh=_LINEAR_TO_S)
    axes.set_yticks(list(_TICKS), list(_TICKS.values()))
    axes.minorticks_off()
    axes.set_ylim(-0.2 * _LINEAR_TO_S, 1.5 * max(highest_s, _LINEAR_TO_S))
    _legend(axes)
    return figure


def _legend(axes: Axes) -> None:
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
    _legend(axes)
    return figure


def _style(number: int) -> tuple[str, str]:
    return SERIES[number % len(SERIES)], _LINES[number // len(SERIES) % len(_LINES)]


def _short(name: str, most: int = 20) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
