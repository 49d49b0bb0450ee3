"""Texts of figures are drawn as they are written: names hold what their users like."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@contextmanager
def texts_as_written(figure: "Figure") -> Iterator[None]:
    """Save a figure in this context once all of it is drawn: `$x_{$` in a name is no formula, and letters
    that the font lacks are no warning.

    Powers of ten that matplotlib itself writes at logarithmic axes stay formulas.
    """
    from matplotlib.text import Text
    from matplotlib.ticker import LogFormatter

    for text in figure.findobj(Text):
        text.set_parse_math(False)
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        if isinstance(axis.get_major_formatter(), LogFormatter):
            for text in axis.findobj(Text):
                text.set_parse_math(text is not axis.label)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        yield
