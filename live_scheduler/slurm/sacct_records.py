"""The records of sacct's answers, whatever users wrote into names and comments."""

import secrets
from collections.abc import Iterator, Sequence

from foundation.errors import ServiceUnavailableError

# A random word, which ends fields.
FIELD_END = f"\x1f{secrets.token_hex(8)}"


def sacct_command(fields: Sequence[str]) -> tuple[str, ...]:
    """Return the command for a record of each run of each user's jobs; options say which."""
    return (
        "sacct",
        "--allusers",
        "--allocations",
        "--noheader",
        "--noconvert",
        "--parsable2",
        f"--delimiter={FIELD_END}",
        f"--format={','.join(fields)}",
    )


def sacct_records(text: str, fields: int) -> Iterator[list[str]]:
    """Cut an answer into records of so many fields; a line's end parts two records, and is in no last field.

    Raises ServiceUnavailableError for an answer that broke off.
    """
    if not text:
        return
    pieces = text.split(FIELD_END)
    between = fields - 1
    if len(pieces) % between != 1:
        raise ServiceUnavailableError("sacct's answer broke off, or has other fields than were asked for.")
    first = pieces[0]
    for at in range(1, len(pieces), between):
        last, _, following = pieces[at + between - 1].partition("\n")
        yield [first, *pieces[at : at + between - 1], last]
        first = following
