"""What Slurm shows of a job besides the fields of a live job: the facts that have a column in its tables."""

from collections.abc import Iterable
from contextlib import suppress

from cluster_logs.slurm_words import FACTS_OF_TRES
from live_scheduler.cluster_state import OTHER_FACTS

# Words of squeue and sacct for nothing.
NOTHING = frozenset({"", "N/A", "(null)", "None", "NONE", "Unknown", "NOT_SET"})


# A job's queue is its home, which the readers know, as they know the lists of what it asked for.
_NOT_A_COLUMN = ("queue", *FACTS_OF_TRES)


def fact_columns(program: str) -> dict[str, str]:
    """Fact -> column of squeue or sacct, of facts that have one of their own."""
    facts = (
        fact for name, fact in OTHER_FACTS.items() if name not in _NOT_A_COLUMN and program in fact.columns
    )
    return {fact.name: fact.columns[program] for fact in facts}


def other_facts(names: Iterable[str], texts: Iterable[str], home: str) -> dict[str, str | float]:
    """Return OTHER_FACTS as their columns have them; `home` is the partition that the job belongs to."""
    facts: dict[str, str | float] = {"queue": home}
    for name, text in zip(names, texts, strict=True):
        if text in NOTHING:
            continue
        with suppress(ValueError):  # a number with a unit
            facts[name] = float(text) if OTHER_FACTS[name].is_number else text
    return facts
