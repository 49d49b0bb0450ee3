"""Names and ids sorted as people count: n9 before n10, job 10_2 before 10_11."""

import re

NaturalKey = tuple[tuple[int, int, str], ...]


def natural_key(name: str) -> NaturalKey:
    """Return what sorts a name so: its numbers by their size, the text between them by the alphabet."""
    words = re.findall(r"[0-9]+|[^0-9]+", name)
    return tuple((0, int(word), "") if word.isdecimal() else (1, 0, word) for word in words)
