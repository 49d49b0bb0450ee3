"""Which configurations a command measures: names of models or configurations, and patterns of them."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from foundation.errors import UnknownNameError
from profiler_jobs.workloads import JobType, list_job_types

EVERYTHING, TABLE_1 = "all", "table1"


def choose_job_types(text: str | None, known: Sequence[JobType]) -> tuple[JobType, ...]:
    """Return the configurations that a comma-separated list names, in the order of `known`.

    A word is a model (`ResNet50`), a configuration (`ResNet50/ImageNet/64/1`) or a pattern of either
    (`ResNet*`, `*/*/64/*`), in upper or lower case; `table1` (also when nothing is given) is Lucid's Table 1,
    `all` everything in `known`. Raises UnknownNameError for a word that names nothing.
    """
    names: set[str] = set()
    for word in (text or TABLE_1).split(","):
        names |= _named(word.strip(), known)
    return tuple(job_type for job_type in known if job_type.name in names)


def _named(word: str, known: Sequence[JobType]) -> set[str]:
    if word.lower() == EVERYTHING:
        return {job_type.name for job_type in known}
    if word.lower() == TABLE_1:
        return {job_type.name for job_type in list_job_types()}
    pattern = word.lower()
    matching = {
        job_type.name
        for job_type in known
        if fnmatchcase((job_type.name if "/" in word else job_type.model.name).lower(), pattern)
    }
    if not matching:
        models = dict.fromkeys(job_type.model.name for job_type in known)
        raise UnknownNameError("workload", word, [EVERYTHING, TABLE_1, *models])
    return matching
