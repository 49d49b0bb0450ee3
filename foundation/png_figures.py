"""PNG figures, drawn without a display; equal figures are equal in bytes."""

from pathlib import Path

from matplotlib.figure import Figure

from foundation.figure_texts import texts_as_written

_DPI = 120


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a figure as PNG, without a date or the library's version in the file."""
    with texts_as_written(figure):
        figure.savefig(path, format="png", dpi=_DPI, metadata={"Software": None})
    return path
