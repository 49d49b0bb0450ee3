"""Slurm's lists of hosts, `gpu[01-03,7],login`, name by name."""

import re
from collections.abc import Iterable

MOST_HOSTS = 100_000  # of one list: more are a slip of the pen
_NUMBER = re.compile(r"[0-9]{1,9}")


def expand_hosts(text: str) -> list[str]:
    """The nodes of a Slurm host list: `gpu[01-03,7],login` is gpu01, gpu02, gpu03, gpu7, login."""
    hosts: list[str] = []
    for name in re.findall(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)*", text):
        names = [""]
        for plain, ranges in re.findall(r"([^\[]*)(?:\[([^\]]*)\])?", name):
            choices = [plain + choice for choice in (_choices(ranges) if ranges else [""])]
            most = MOST_HOSTS // max(1, len(names))
            names = [start + choice for start in names for choice in choices[:most]]
        hosts += names
    return hosts[:MOST_HOSTS]


def _choices(ranges: str) -> list[str]:
    choices: list[str] = []
    for part in ranges.split(","):
        first, dash, last = part.partition("-")
        if not dash:
            choices.append(first)
        elif _NUMBER.fullmatch(first) and _NUMBER.fullmatch(last):
            most = min(int(last), int(first) + MOST_HOSTS)
            choices += [str(number).zfill(len(first)) for number in range(int(first), most + 1)]
    return choices[:MOST_HOSTS]


_LISTED = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})|[0-9]{1,20}")
_ENDS_IN_DIGITS = re.compile(r"(.*?)([0-9]{1,9})", re.DOTALL)


def listed_hosts(text: str) -> list[str]:
    """The entries of a host list, `n[1-3]` and `login` of `n[1-3],login`; raises ValueError for none.

    What `expand_hosts` passes over in a text that a program has written is an error in one by people: a
    bracket that is open, a range that runs backwards.
    """
    entries = _LISTED.findall(text)
    if sum(map(len, entries)) + text.count(",") - sum(each.count(",") for each in entries) != len(text):
        raise ValueError("brackets do not close")
    for entry in entries:
        for ranges in re.findall(r"\[([^\]]*)\]", entry):
            for part in ranges.split(","):
                match = _RANGE.fullmatch(part)
                if match is None:
                    raise ValueError(f"{part!r} is no range of numbers")
                if match[2] and int(match[2]) < int(match[1]):
                    raise ValueError(f"{part} runs backwards")
    if _size(entries) > MOST_HOSTS:
        raise ValueError(f"more than {MOST_HOSTS:,} names")
    return entries


def fold_hosts(names: Iterable[str]) -> list[str]:
    """Host lists of one name or one range each that together name these, in their order: n[1-3], n7."""
    folded: list[str] = []
    run: tuple[str, str, str] | None = None  # prefix, first and last number of what may still go on
    for name in names:
        match = _ENDS_IN_DIGITS.fullmatch(name)
        if match is not None and run is not None and _follows(match[1], match[2], run):
            run = (run[0], run[1], match[2])
            continue
        folded += _written(run)
        run = None if match is None else (match[1], match[2], match[2])
        if match is None:
            folded.append(name)
    return folded + _written(run)


def _follows(prefix: str, number: str, run: tuple[str, str, str]) -> bool:
    written = str(int(run[2]) + 1).zfill(len(run[1]))
    return prefix == run[0] and number == written


def _written(run: tuple[str, str, str] | None) -> list[str]:
    if run is None:
        return []
    prefix, first, last = run
    return [f"{prefix}{first}" if first == last else f"{prefix}[{first}-{last}]"]


def _size(entries: Iterable[str]) -> int:
    total = 0
    for entry in entries:
        count = 1
        for ranges in re.findall(r"\[([^\]]*)\]", entry):
            bounds = (part.partition("-") for part in ranges.split(","))
            count *= sum(int(last) - int(first) + 1 if dash else 1 for first, dash, last in bounds)
        total += count
    return total
