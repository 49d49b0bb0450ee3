"""What recurs in a log: jobs of one family run the same program again."""

import re
from collections.abc import Iterable

import numpy as np

from simulator.workload.columns import NO_TEXT, Texts

# A run of hexadecimal digits with a decimal one in it, as in commit and container ids; then other numbers.
_HASH = re.compile(r"(?<![0-9a-z])(?=[0-9a-f]*[0-9])[0-9a-f]{7,}(?![0-9a-z])")
_NUMBER = re.compile(r"[0-9]+")
MASK = "#"


def name_family(name: str) -> str:
    """Return a job's name with what differs from run to run masked.

    Numbers (dates, counters, array tasks, process ids) and hashes become one `#`, runs of `#` with only
    punctuation between them one: `train_2020-09-01_lr0.1` and `train_2020-10-11_lr0.02` are one family.
    """
    masked = _NUMBER.sub(MASK, _HASH.sub(MASK, name.lower()))
    return re.sub(r"#(?:[-_.:/ ]*#)+", MASK, masked).strip()


def job_templates(
    job_types: Iterable[str | None], users: Iterable[str | None], names: Iterable[str | None]
) -> list[str | None]:
    """Return what recurs, one a job: its job type, else its user's family of names; None if neither is known.

    Names are one user's own: `train` of two users is two programs.
    """
    families: dict[str, str] = {}
    templates: list[str | None] = []
    for job_type, user, name in zip(job_types, users, names, strict=True):
        if job_type is not None:
            templates.append(job_type)
        elif name is None:
            templates.append(None)
        else:
            family = families.get(name)
            if family is None:
                family = families[name] = name_family(name)
            templates.append(f"{user or ''}/{family}")
    return templates


def template_texts(job_types: Texts, users: Texts, names: Texts) -> Texts:
    """Return the same as `job_templates`, of columns."""
    known = np.flatnonzero((job_types.codes != NO_TEXT) | (names.codes != NO_TEXT))
    combined = job_types.codes[known].astype(np.int64)
    for texts in (users, names):
        combined = combined * (len(texts.names) + 1) + texts.codes[known]
    _, first, which = np.unique(combined, return_index=True, return_inverse=True)
    rows = known[first]
    found = Texts.of(job_templates(*(texts[rows].tolist() for texts in (job_types, users, names))))
    codes = np.full(len(job_types.codes), NO_TEXT, dtype=np.int32)
    codes[known] = found.codes[which]
    return Texts(codes, found.names)
