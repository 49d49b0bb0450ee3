"""Values of a slurm.conf as slurmctld reads them (22.05.8, tried); what it refuses is a BadInputError.

Numbers may be octal (010), hexadecimal (0x10) or end in K (1,024). Times are minutes, or hours, minutes and
seconds in one of Slurm's forms, and seconds round up to a whole minute.
"""

import re
from collections.abc import Mapping
from math import ceil
from typing import cast, get_args

from cluster_logs.site.rules import PreemptMode
from cluster_logs.slurm_site.conf_text import Pair
from cluster_logs.slurm_words import memory_mib
from foundation.errors import BadInputError

_WHOLE = re.compile(r"\+?(0[xX][0-9A-Fa-f]{1,15}|0[0-7]{0,20}|[1-9][0-9]{0,18})([kK]?)")
_FRACTION = re.compile(r"[+-]?([0-9]{1,18}(\.[0-9]{0,18})?|\.[0-9]{1,18})([eE][+-]?[0-9]{1,2})?")
_TIME = re.compile(
    r"(?:(?P<d>[0-9]{1,9})-)?(?P<first>[0-9]{0,9})(?::(?P<second>[0-9]{1,9}))?(?::(?P<third>[0-9]{1,9}))?"
)
_NO_LIMIT = frozenset({"infinite", "unlimited", "-1"})
_TRES = frozenset(
    {"cpu", "mem", "energy", "node", "billing", "vmem", "pages", "fs", "bb", "gres", "license", "ic"}
)
_YES, _NO = frozenset({"yes", "up", "true", "1"}), frozenset({"no", "down", "false", "0"})


def bad(pair: Pair, what: str, remedy: str | None = None) -> BadInputError:
    """Return the error of a value that Slurm could not use either."""
    return BadInputError(f"{pair.place}: {pair.key}={pair.value[:200]} {what}.", remedy=remedy)


def whole_number(pair: Pair) -> int:
    """Return a whole number from 0 on."""
    match = _WHOLE.fullmatch(pair.value)
    if match is None:
        raise bad(pair, "is no whole number", "Write one from 0 on.")
    digits = match[1].lower()
    number = int(digits, 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10)
    return number * (1024 if match[2] else 1)


def whole_number_or_none(pair: Pair) -> int | None:
    """Return a whole number, None for INFINITE and UNLIMITED."""
    return None if is_unlimited(pair.value) else whole_number(pair)


def number(pair: Pair) -> int:
    """Return a whole number, which may be negative."""
    sign = -1 if pair.value.startswith("-") else 1
    return sign * whole_number(Pair(pair.key, pair.value.removeprefix("-"), pair.place))


def is_unlimited(text: str) -> bool:
    """Whether a limit is none: INFINITE, UNLIMITED, -1."""
    return text.lower() in _NO_LIMIT


def minutes_as_s(pair: Pair) -> float | None:
    """Return the seconds of a time that Slurm keeps in minutes; None for INFINITE, UNLIMITED and -1."""
    seconds = time_s(pair.value)
    if seconds is None and not is_unlimited(pair.value):
        raise bad(pair, "is no time", "Write minutes, HH:MM:SS, D-HH:MM:SS or UNLIMITED.")
    return None if seconds is None else ceil(seconds / 60) * 60.0


def time_s(text: str) -> float | None:
    """Return the seconds of minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S; None for anything else."""
    match = _TIME.fullmatch(text)
    if match is None or not (match["d"] or match["first"]):
        return None
    days, first, second, third = (int(match[name] or 0) for name in ("d", "first", "second", "third"))
    if match["d"] is not None:
        return float(((days * 24 + first) * 60 + second) * 60 + third)
    if match["third"] is not None:
        return float((first * 60 + second) * 60 + third)
    return float(first * 60 + second)


def flag(pair: Pair) -> bool:
    """Return whether a switch is on: YES, UP, TRUE, 1 or NO, DOWN, FALSE, 0."""
    word = pair.value.lower()
    if word not in _YES | _NO:
        raise bad(pair, "is neither YES nor NO")
    return word in _YES


def words(pair: Pair) -> tuple[str, ...]:
    """Return the words of a list with commas; empty ones are none."""
    return tuple(word for each in pair.value.split(",") if (word := each.strip()))


def options(pair: Pair | None) -> list[Pair]:
    """Return the words of a list of options, `bf_interval=60,bf_continue`, each with its value (or none)."""
    if pair is None:
        return []
    parts = (word.partition("=") for word in words(pair))
    return [Pair(name.strip(), value.strip(), pair.place) for name, _, value in parts]


def one_of(pair: Pair, *known: str) -> str:
    """Return one of the words `known`, which are in lower case."""
    word = pair.value.lower()
    if word not in known:
        raise bad(pair, "is not known to Slurm", f"It knows: {', '.join(known)}.")
    return word


def preempt_mode(pair: Pair | None) -> PreemptMode | None:
    """Return the mode of a PreemptMode list; GANG and WITHIN, which may stand beside it, are none."""
    modes = [] if pair is None else [word.lower() for word in words(pair)]
    modes = [mode for mode in modes if mode not in ("gang", "within")]
    if pair is None or not modes:
        return None
    if modes[0] not in get_args(PreemptMode):
        raise bad(pair, "is not known to Slurm", "It knows: OFF, CANCEL, REQUEUE, SUSPEND.")
    return cast("PreemptMode", modes[0])


def plugin(pair: Pair, *known: str) -> str:
    """Return the name of a plugin behind its kind, `backfill` of `sched/backfill`."""
    name = pair.value.lower().rpartition("/")[2]
    if name not in known:
        raise bad(pair, "is not known to Slurm", f"It knows: {', '.join(known)}.")
    return name


def tres_name(text: str) -> str:
    """Return the name of a TRES as it is compared: lower case, but for what a site named."""
    kind, slash, name = text.strip().partition("/")
    return f"{kind.lower()}/{name.lower() if kind.lower() == 'gres' else name}" if slash else kind.lower()


def tres_weights(pair: Pair) -> Mapping[str, float]:
    """Return weights by TRES, `CPU=1000,GRES/gpu=3000`, which may be negative; of memory for a MiB."""
    weights: dict[str, float] = {}
    for option in options(pair):
        name, number = tres_name(option.key), option.value.rstrip("KMGTPkmgtp")
        if name.partition("/")[0] not in _TRES or _FRACTION.fullmatch(number) is None:
            raise bad(
                pair, f"has {option.key}={option.value}, which is no weight", "Write cpu=1000,gres/gpu=3000."
            )
        # A weight with a unit holds for one of it: Mem=0.25G is 0.25 a GiB.
        unit = option.value[len(number) :].upper()
        weights[name] = float(number) / (memory_mib(f"1{unit}") if unit else 1.0)
    return weights


def tres_amounts(text: str) -> Mapping[str, int] | None:
    """Return amounts by TRES, `cpu=100,mem=250G,gres/gpu=8`, memory in MiB; None for anything else."""
    amounts: dict[str, int] = {}
    for word in filter(None, text.split(",")):
        name, equals, number = word.partition("=")
        amount = memory_mib(number) if equals else float("nan")
        if amount != amount or not name:
            return None
        if name.lower() not in ("mem", "vmem") and not number.isdigit():
            return None
        amounts[tres_name(name)] = int(amount)
    return amounts
