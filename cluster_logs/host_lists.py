"""Slurm's lists of hosts, `gpu[01-03,7],login`, name by name."""

import re

MOST_HOSTS = 100_000  # of one list: more are a slip of the pen
_NUMBER = re.compile(r"[0-9]{1,6}")


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
            choices += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return choices[:MOST_HOSTS]
