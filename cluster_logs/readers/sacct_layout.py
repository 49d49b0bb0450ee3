"""How an export of `sacct` is laid out: what separates its columns, and which they are.

The header says both: the words JobID or JobIDRaw and State stand in it, and what stands between its words
separates the columns, be it `|`, another character (`--delimiter`) or several. Warnings may stand above it.
Without a header the columns are those of `DEFAULT_FIELDS`, separated by `|` or `UNIT_SEPARATOR`. The table
that sacct prints for people cuts its values to a width, so it is refused.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from cluster_logs.job_facts import source_columns
from cluster_logs.readers.delimited import MOST_ABOVE_HEADER, Layout
from cluster_logs.readers.text_source import TextSource
from cluster_logs.slurm_words import DEFAULT_FIELDS, EXPORT_COMMAND, OLDER_FIELDS, UNIT_SEPARATOR
from foundation.errors import BadInputError
from foundation.progress import silent

COLUMNS = source_columns("sacct")
_IDS = frozenset({"jobid", "jobidraw"})
_LAYOUT = Layout(
    required=("jobidraw|jobid", "state", "submit", "start", "end", "alloctres|reqtres"),
    optional=("cluster", "nodelist", "comment", "admincomment", *COLUMNS.values()),
    delimiter="|",
    quotes=False,
    fixed_header=DEFAULT_FIELDS,
    header_words=_IDS,
    free_text=frozenset(
        {
            "jobname",
            "comment",
            "admincomment",
            "systemcomment",
            "submitline",
            "workdir",
            "wckey",
            "container",
            "extra",
            "stdin",
            "stdout",
            "stderr",
        }
    ),
)

_HEAD_BYTES = 65_536
# What stands behind the word JobID, or before it where it is the last.
_BESIDE_ID = re.compile(
    rb"(?i)(?<![a-z])jobid(?:raw)?([^a-z]+)(?=[a-z])|(?<=[a-z])([^a-z]+)jobid(?:raw)?(?![a-z])"
)


def layout_of(source: TextSource) -> Layout:
    """The layout of a file that sacct wrote.

    Raises BadInputError for its table for people, for a header that lacks a column that is needed, and for
    lines without a header whose columns are not those that are read then; the message names the command that
    exports all.
    """
    head = next(replace(source, progress=silent).blocks(_HEAD_BYTES), b"")
    lines = head.split(b"\n")[:-1]
    header = next(filter(None, map(_header, lines[: MOST_ABOVE_HEADER + 1])), None)
    if header is None:
        return _without_header(lines, source)
    separator, names = header
    if not separator.strip(b" "):
        raise BadInputError(
            f"{source.place} is the table that sacct prints for people: values are cut to the width of their "
            "column, and blanks stand between them.",
            remedy=f"Export it for programs:\n{EXPORT_COMMAND}\n",
        )
    missing = [column for column in _LAYOUT.required if not names.intersection(column.split("|"))]
    if missing:
        raise BadInputError(
            f"{source.place} has no column {' and none '.join(missing).replace('|', ' or ')}; it has "
            f"{', '.join(sorted(names - {''}))}.",
            remedy=f"Export all that is read:\n{EXPORT_COMMAND}\n",
        )
    quoted = b'"' in separator
    separator = separator.strip(b'"')
    layout = replace(_LAYOUT, quotes=quoted or separator == b",")
    if len(separator) == 1:
        return replace(layout, delimiter=separator.decode(errors="replace"))
    return replace(layout, delimiter=UNIT_SEPARATOR, clean=_separated_by(separator))


def _header(line: bytes) -> tuple[bytes, frozenset[str]] | None:
    """What separates the columns of a header, and their names in lower case; None for another line."""
    for match in _BESIDE_ID.finditer(line):
        separator: bytes = match[1] or match[2]
        bare = separator.strip(b'"') if separator.strip(b" ") else None
        words = (name.strip(b' "').lower() for name in line.split(bare))
        names = frozenset(word.decode(errors="backslashreplace") for word in words)
        if "state" in names and names & _IDS:
            return separator, names
    return None


def _without_header(lines: list[bytes], source: TextSource) -> Layout:
    """The width says how many fields were asked for. Most lines count, not the first: a name may hold `|`."""
    possible_widths = range(len(OLDER_FIELDS), len(DEFAULT_FIELDS) + 1)
    for separator in (UNIT_SEPARATOR, "|"):
        widths = Counter(line.count(separator.encode()) + 1 for line in lines)
        width = max(possible_widths, key=lambda count, widths=widths: (widths[count], count))  # type: ignore[misc]
        if widths[width]:
            return replace(_LAYOUT, delimiter=separator, fixed_header=DEFAULT_FIELDS[:width])
    raise BadInputError(
        f"{source.place} has no header line that names JobID and State, and no line with the "
        f"{len(OLDER_FIELDS)} to {len(DEFAULT_FIELDS)} columns, separated by '|', that are read without one.",
        remedy=f"Export it so:\n{EXPORT_COMMAND}\n",
    )


def _separated_by(separator: bytes) -> Callable[[bytes], bytes]:
    """Lines whose columns a text of several bytes separates, with one character in its place."""
    unit = UNIT_SEPARATOR.encode()

    def separated(block: bytes) -> bytes:
        return block.replace(unit, b" ").replace(separator, unit)

    return separated
