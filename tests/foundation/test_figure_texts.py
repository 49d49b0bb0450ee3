"""Names in figures are data: nothing in them is a formula, and no letter is a warning."""

import warnings
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from foundation.html_pages import inline_svg
from foundation.png_figures import new_figure, save_figure

NAMES = ["$x_{$", r"a$\frac{$b", "组", r"$\alpha$"]


def figure_of(names: list[str]) -> Figure:
    """Names at an axis of categories, at ticks that were set, in a legend, and as texts."""
    figure = new_figure(6.0, 4.0)
    bars, lines = figure.subplots(2, 1)
    bars.barh(names, range(1, len(names) + 1))
    bars.set_xscale("log")
    bars.set_xlabel(names[0])
    lines.plot([0, 1], [0, 1e4], label=names[1])
    lines.set_yscale("symlog", linthresh=1.0)
    lines.set_xticks([0, 1], names[:2])
    lines.legend(title=names[3])
    lines.annotate(names[0], (0, 1))
    figure.suptitle(names[1])
    return figure


def test_names_are_drawn_as_they_are_written(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svg = str(inline_svg(figure_of(NAMES), "names"))
        save_figure(figure_of(NAMES), tmp_path / "names.png")
    assert [name for name in NAMES if f">{name}</text>" not in svg] == []
    assert "mathdefault{10^{0}}$</text>" not in svg, "powers of ten are no texts of anybody"


@pytest.mark.parametrize("name", ["$x_{$", "$", "plain"])
def test_equal_figures_are_equal_files(tmp_path: Path, name: str) -> None:
    files = [save_figure(figure_of([name, "b", "c", "d"]), tmp_path / f"{n}.png") for n in range(2)]
    assert files[0].read_bytes() == files[1].read_bytes()
