"""The text of a slurm.conf, pair by pair: comments, continued lines, quotes and included files.

As slurmctld reads it (22.05.8, tried): a comment begins at a `#` without a backslash before it and is cut off
before a backslash at the line's end is looked for; `Include` begins its line, and a relative name is looked
for beside the file that includes it; `key = value` may have spaces, and only a value in quotes holds any.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from foundation.errors import BadInputError, NotFoundError
from foundation.storage import read_input, shown

MOST_BYTES = 64 * 1024**2  # of one file
_MOST_INCLUDES = 1_000
_DEEPEST = 20  # a file that includes itself has no end
_COMMENT = re.compile(r"(?<!\\)(?:\\\\)*#")
_CONTINUED = re.compile(r"(?<!\\)((?:\\\\)*)\\\s*\Z")
_ESCAPED = re.compile(r"\\(.?)")
_INCLUDE = re.compile(r"include\s+(\S+)(.*)", re.IGNORECASE)
_PAIR = re.compile(r'\s*([A-Za-z0-9_.]+)\s*[-*+/]?=\s*(?:"([^"]*)"|(\S+))(?=\s|\Z)')


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """Where something was read: a file and, unless a program printed it, its line from 1 on."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}, line {self.line}"


@dataclass(frozen=True, slots=True)
class Pair:
    """A key as it was written, its value, and where it stood."""

    key: str
    value: str
    place: SourcePlace


def read_lines(path: str) -> Iterator[list[Pair]]:
    """Yield the pairs of each line of a file and of those that it includes, in order.

    Raises BadInputError for a line that is none of a slurm.conf; NotFoundError for a file that is not there.
    """
    yield from _File(path, 0, _Seen()).lines()


def pairs_of(text: str, place: SourcePlace) -> list[Pair]:
    """Return the pairs of one line without a comment. Raises BadInputError for anything else in it."""
    pairs, position = [], 0
    while text[position:].strip():
        match = _PAIR.match(text, position)
        if match is None:
            raise BadInputError(
                f"{place}: {text[position:].strip()[:200]!r} is no key=value.",
                remedy="Slurm does not start with such a line: put a value that holds spaces into quotes.",
            )
        pairs.append(Pair(match[1], match[3] if match[2] is None else match[2], place))
        position = match.end()
    return pairs


class _Seen:
    """What the files so far say of words that file names may hold (`%c`), and how many files they were."""

    def __init__(self) -> None:
        self.cluster_name = ""
        self.files = 0


class _File:
    def __init__(self, path: str, depth: int, seen: _Seen) -> None:
        self._path, self._depth, self._seen = path, depth, seen
        seen.files += 1
        if depth > _DEEPEST or seen.files > _MOST_INCLUDES:
            raise BadInputError(
                f"{shown(path)} is included too often or too deep.", remedy="Does a file include itself?"
            )

    def lines(self) -> Iterator[list[Pair]]:
        text = read_input(self._path, most_bytes=MOST_BYTES).decode(errors="backslashreplace")
        for line, number in _logical_lines(text):
            place = SourcePlace(shown(self._path), number)
            if included := _INCLUDE.fullmatch(line):
                yield from self._included(included[1], included[2], place)
            elif pairs := pairs_of(line, place):
                for pair in pairs:
                    if pair.key.lower() == "clustername":
                        self._seen.cluster_name = pair.value
                yield pairs

    def _included(self, name: str, rest: str, place: SourcePlace) -> Iterator[list[Pair]]:
        if rest.strip():
            raise BadInputError(f"{place}: {rest.strip()[:200]!r} stands behind the included file {name!r}.")
        path = name.replace("%c", self._seen.cluster_name)
        if not PurePath(path).is_absolute():
            path = os.path.join(os.path.dirname(self._path), path)  # noqa: PTH118, PTH120 - may be a URI
        try:
            yield from _File(path, self._depth + 1, self._seen).lines()
        except NotFoundError as error:
            raise BadInputError(
                f"{place}: the included file {shown(path)} is not there.",
                remedy="Copy it there, or name where its copy is, relative to this file.",
            ) from error


def _logical_lines(text: str) -> Iterator[tuple[str, int]]:
    """Yield the lines without comments, continued ones joined, each with the number of its first line."""
    joined, first = "", 0
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        plain = line if (comment := _COMMENT.search(line)) is None else line[: comment.end() - 1]
        first = first or number
        continued = _CONTINUED.search(plain)
        joined += plain if continued is None else plain[: continued.end(1)]
        if continued is not None and number < len(lines):
            continue
        whole = _ESCAPED.sub(r"\1", joined)
        if whole.strip():
            # A return before the line's end, as Windows writes it, is a space for Slurm too.
            yield whole.rstrip(), first
        joined, first = "", 0
