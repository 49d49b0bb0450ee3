"""What jobs have in common: the parts that the keys of the run-time statistics are made of.

Standard library only. What stands for "unknown" in a queue or a log (None, NaN, an empty text) is unknown
here.
"""

import math
import re
from collections.abc import Sequence

# A run time below one second is counted as one second, so that its logarithm is not negative.
MIN_DURATION_S = 1.0
KEY_SEPARATOR = "\x1f"
UNNAMED = "(no name)"
_DIGITS = re.compile(r"[0-9]+")


def name_family(name: str) -> str:
    """The family of a job name: lower case, every run of digits as `#` (`ResNet50_lr3` -> `resnet#_lr#`)."""
    return _DIGITS.sub("#", name.lower())


def size_key(gpus: float, cpus: float | None) -> str:
    """How large a job is: its GPUs, or its CPU cores when it has no GPU."""
    if gpus > 0:
        return f"{gpus:g}"
    return "cpu" if cpus is None else f"cpu{cpus:g}"


def amount_key(amount: float) -> str | None:
    """An amount that was asked for (of run time, of memory) in its unit; None without one."""
    return f"{amount:g}" if amount > 0 else None


def text_or_none(value: object) -> str | None:
    """A text, or None for what stands for a missing one (None, NaN, empty)."""
    if value is None or value == "" or value != value:
        return None
    return str(value).replace(KEY_SEPARATOR, " ")


def number_or_nan(value: object) -> float:
    """A finite number, or NaN for anything that is not one."""
    if value is None or isinstance(value, bool):
        return math.nan
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def log_duration(duration_s: float) -> float:
    """Natural logarithm of a run time of at least one second."""
    return math.log(max(duration_s, MIN_DURATION_S))


def join_key(parts: Sequence[str | None]) -> str | None:
    """The parts of a key as one text; None when one of them is unknown."""
    try:
        return KEY_SEPARATOR.join(parts)  # type: ignore[arg-type]
    except TypeError:
        return None
