"""Numbers of the tables as people read them; the CSV files hold them as they are."""

import math
from typing import Any

import pandas as pd

_UNITS_S = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))
_TWO_STEPS = 3  # of a unit, from which the next smaller one does not matter
_WORDS = {"gpus": "GPUs", "gpu": "GPU", "cpu": "CPU", "jct": "JCT", "pct": "%"}


def duration_text(seconds: float) -> str:
    """A duration in its largest unit: 45 s, 12.5 min, 3.1 h, 2.4 d."""
    for unit_s, name in _UNITS_S:
        if abs(seconds) >= unit_s:
            return f"{seconds / unit_s:,.1f} {name}"
    return f"{seconds:.0f} s"


def heading(column: str) -> str:
    """A column's name in words, with its unit."""
    if column.endswith("gpu_time_s"):
        return f"{_in_words(column.removesuffix('_s'))}, GPU h"
    for ending, unit in (("_pct", ", %"), ("_h", ", h"), ("_s", "")):
        if column.endswith(ending):
            return _in_words(column.removesuffix(ending)) + unit
    return _in_words(column)


def cell(column: str, value: Any) -> str:
    """A value of a column as text; a dash where there is none."""
    if isinstance(value, str):
        return value
    if value is None or pd.isna(value) or not math.isfinite(value):
        return "–"
    if column.endswith("gpu_time_s"):
        return f"{value / 3_600:,.1f}"
    if column.endswith("_s"):
        return duration_text(float(value))
    if column in ("hour", "gpus") or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.2f}" if column.startswith(("mean_gpus", "gini")) else f"{value:,.1f}"


def _in_words(name: str) -> str:
    return " ".join(_WORDS.get(word, word) for word in name.split("_"))
