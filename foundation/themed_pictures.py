"""Pictures that are light or dark as their reader's screen is.

Lines and texts are drawn in placeholder colours, which become CSS variables in a page (`themes.html` sets
them), or the colours of one theme in a file of its own.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from markupsafe import Markup

from foundation.html_pages import inline_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, GRID = "#fe0001", "#fe0002"
SERIES = ("#fe0011", "#fe0012", "#fe0013", "#fe0014")
_VARIABLES = {INK: "--ink", GRID: "--line", **{code: f"--series-{i + 1}" for i, code in enumerate(SERIES)}}
LIGHT: Mapping[str, str] = {
    "--paper": "#ffffff",
    "--ink": "#222222",
    "--muted": "#5f6670",
    "--line": "#d9dde2",
    "--shade": "#f1f3f5",
    "--series-1": "#2563a8",
    "--series-2": "#c2681f",
    "--series-3": "#2e7d4f",
    "--series-4": "#8a4fa3",
}
DARK: Mapping[str, str] = {
    "--paper": "#14171b",
    "--ink": "#e4e7eb",
    "--muted": "#9aa3ad",
    "--line": "#353b43",
    "--shade": "#232930",
    "--series-1": "#6aaaf0",
    "--series-2": "#f0a05a",
    "--series-3": "#63c48c",
    "--series-4": "#c692e0",
}
_NAMESPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'


def themed_svg(figure: "Figure", title: str) -> Markup:
    """Return a figure as an SVG element in CSS variables."""
    svg = str(inline_svg(figure, title))
    for code, variable in _VARIABLES.items():
        svg = svg.replace(code, f"var({variable})")
    return Markup(svg)  # noqa: S704  inline_svg's own, with colours replaced


def as_file(svg: Markup, theme: Mapping[str, str]) -> str:
    """A picture as an SVG file in the colours of a theme, on its paper."""
    text = str(svg).replace("<svg", f'<svg {_NAMESPACES} style="background:{theme["--paper"]}"', 1)
    for variable in _VARIABLES.values():
        text = text.replace(f"var({variable})", theme[variable])
    return text


def dress(axes: "Axes", x: str, y: str) -> None:
    """Give axes their labels and the colours of the theme."""
    axes.patch.set_alpha(0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.tick_params(colors=INK, labelsize=8)
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel(x, color=INK, fontsize=9)
    axes.set_ylabel(y, color=INK, fontsize=9)
