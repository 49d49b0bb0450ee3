"""Small pictures for the monitoring page; their numbers stand as text beside them."""

from collections.abc import Sequence

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from foundation.html_pages import inline_svg

COLOURS = ("#2563a8", "#c2681f")
GREY = "#777777"
_SIZE_IN = (7.4, 2.2)
_MOST_LABELS = 8


def columns(labels: Sequence[str], values: Sequence[float], title: str) -> Markup:
    """Draw a column a label, with the value above it."""
    if not values:
        return Markup()
    figure, axes = _axes()
    bars = axes.bar(range(len(labels)), values, color=COLOURS[0], width=0.7)
    axes.bar_label(bars, labels=[f"{value:,.0f}" for value in values], fontsize=8)
    axes.set_yticks([])
    return _drawn(figure, axes, labels, title)


def lines(
    labels: Sequence[str],
    series: Sequence[tuple[str, Sequence[float]]],
    title: str,
    level: tuple[str, float] | None = None,
) -> Markup:
    """Draw lines over the same labels from zero on, and a dashed `level`; nothing below two labels."""
    if len(labels) < 2:
        return Markup()
    figure, axes = _axes()
    for (name, values), colour in zip(series, COLOURS, strict=False):
        axes.plot(range(len(labels)), values, color=colour, label=name)
    if level is not None:
        axes.axhline(level[1], color=GREY, linestyle="--", label=level[0])
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
