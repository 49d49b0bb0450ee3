"""Amounts as Kubernetes writes them (`8`, `500m`, `1.5`, `64Gi`, `1e3`), and parts of its objects."""

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from foundation.errors import BadInputError

_FORM = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:[eE]([+-]?\d{1,2})|(n|u|m|k|Ki?|Mi?|Gi?|Ti?|Pi?|Ei?))?")
_SUFFIXES: dict[str | None, Fraction] = {
    None: Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(1000),
    **{name: Fraction(1000) ** power for power, name in enumerate("KMGTPE", start=1)},
    **{f"{name}i": Fraction(1024) ** power for power, name in enumerate("KMGTPE", start=1)},
}


def parse_quantity(text: object) -> Fraction:
    """Return the exact amount; raises BadInputError for anything that is none."""
    match = _FORM.fullmatch(str(text))
    if match is None:
        raise BadInputError(f"{text!r} is no quantity of Kubernetes.")
    sign, number, exponent, suffix = match.groups()
    amount = Fraction(number) * (Fraction(10) ** int(exponent) if exponent else _SUFFIXES[suffix])
    return -amount if sign == "-" else amount


def whole(amount: Fraction) -> int:
    """Return an amount of things that cannot be split; raises BadInputError for a part or less than none."""
    if amount.denominator != 1 or amount < 0:
        raise BadInputError(f"{float(amount):g} is no number of GPUs.")
    return int(amount)


def part(raw: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """Return the mapping at a path of an object; an empty one where there is none."""
    for name in path:
        raw = raw.get(name) or {}
    return raw


def entries(raw: Mapping[str, Any], *path: str) -> Sequence[Any]:
    """Return the list at a path of an object; an empty one where there is none."""
    *above, last = path
    return part(raw, *above).get(last) or []
