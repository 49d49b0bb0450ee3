"""What accounting is asked for, and how Slurm writes times, resources and states; no library is needed."""

import re
from collections.abc import Mapping

from cluster_logs.job_facts import source_columns
from cluster_logs.job_states import JobState

# What sacct was asked for, in this order, by versions that knew fewer facts of a job.
OLDER_FIELDS = (
    "Cluster",
    "JobIDRaw",
    "JobID",
    "User",
    "Partition",
    "JobName",
    "State",
    "Submit",
    "Start",
    "End",
    "ElapsedRaw",
    "TimelimitRaw",
    "AllocTRES",
    "ReqTRES",
    "NCPUS",
    "NNodes",
)
_OLDER = frozenset(map(str.lower, OLDER_FIELDS))
# What sacct is asked for, in this order: what has come to the table of facts stands at the end.
DEFAULT_FIELDS = (
    *OLDER_FIELDS,
    *(
        column.split("|")[0]
        for column in source_columns("sacct").values()
        if not _OLDER.intersection(column.split("|"))
    ),
)
# Between the columns of a log that the live scheduler or `lucid ingest` wrote.
UNIT_SEPARATOR = "\x1f"

# Digits are 0 to 9, and not more of them than a hundred years need.
_ELAPSED = re.compile(r"(?:(?:([0-9]{1,9})-)?([0-9]{1,9}):)?([0-9]{1,9}):([0-9]{1,9})(?:\.[0-9]+)?")
_MINUTES = re.compile(r"[0-9]{1,12}")
_AMOUNT = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]+)?")
# An amount of memory, in MiB without a unit; before Slurm 21.08 sacct's ReqMem ended in what has so much.
_MEMORY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)([KMGTP]?)[nc]?")
_MIB = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
# A kind of GPU as sacct's ReqTRES, its former ReqGRES and squeue's tres-per-node write it: `gres/gpu:a100=2`,
# `gpu:a100:2`, `gres:gpu:a100`; a number alone is how many of any kind.
_GPU_TYPE = re.compile(r"(?:gres[:/])?gpu:(?:([^:=,()]*[^:=,()0-9][^:=,()]*)|([^:=,()]+)(?=[:=]))")
_NONE_OF_IT = re.compile(r"[:=]0+$")

# Words that Slurm, and the logs that were exported from it, use for a state.
SLURM_STATES: Mapping[str, JobState] = {
    "BOOT_FAIL": JobState.FAILED,
    "CANCELLED": JobState.CANCELLED,
    "CANCELED": JobState.CANCELLED,
    "COMPLETED": JobState.COMPLETED,
    "COMPLETING": JobState.RUNNING,
    "CONFIGURING": JobState.RUNNING,
    "DEADLINE": JobState.FAILED,
    "FAILED": JobState.FAILED,
    "NODE_FAIL": JobState.FAILED,
    "OUT_OF_MEMORY": JobState.FAILED,
    "PENDING": JobState.PENDING,
    # This run was ended from outside; a requeued job runs again in a row of its own.
    "PREEMPTED": JobState.CANCELLED,
    "REQUEUED": JobState.CANCELLED,
    "RESIZING": JobState.RUNNING,
    "REVOKED": JobState.CANCELLED,
    "RUNNING": JobState.RUNNING,
    "SUSPENDED": JobState.RUNNING,
    "TIMEOUT": JobState.FAILED,
}


def gpus_of_tres(tres: str) -> float:
    """GPUs in a TRES list such as `cpu=64,gres/gpu:a100=8,gres/gpu=8,node=1`; 0 when it names none.

    A job with shares of GPUs (`gres/shard=3`) has them of one GPU on each of its nodes. NaN when an amount is
    not a number.
    """
    plain, typed, nodes, shares = None, 0.0, 1.0, False
    for entry in tres.split(","):
        key, _, amount = entry.partition("=")
        if key == "gres/gpu":
            plain = _amount(amount)
        elif key.startswith("gres/gpu:"):
            typed += _amount(amount)
        elif key == "node":
            nodes = _amount(amount)
        elif key.partition(":")[0] == "gres/shard":
            shares = True
    if plain is None and not typed and shares:
        return nodes
    return typed if plain is None else plain


def memory_mib_of_tres(tres: str) -> float:
    """MiB in a TRES list such as `cpu=4,mem=64G`; 0 when it names none, NaN when that is no amount."""
    amounts = (entry.removeprefix("mem=") for entry in tres.split(",") if entry.startswith("mem="))
    return memory_mib(next(amounts, "0"))


def memory_mib(text: str) -> float:
    """MiB of `500M`, `62.5G`, `4Gn` (of each node) or `2000Mc` (of each core); NaN for anything else."""
    match = _MEMORY.fullmatch(text)
    return float("nan") if match is None else float(match[1]) * _MIB[match[2]]


def gpu_type_of_tres(tres: str) -> str | None:
    """The type of GPU that a list asks for (`a100` of `gres/gpu:a100=2`), several joined by `+`; None: any.

    In lower case, as slurmdbd keeps it.
    """
    types = set()
    for entry in tres.split(","):
        match = _GPU_TYPE.match(entry)
        if match is not None and not _NONE_OF_IT.search(entry):
            types.add((match[1] or match[2]).lower())
    return "+".join(sorted(types)) or None


# Facts of a job that Slurm tells in lists of what it asked for, with GPUs and cores.
FACTS_OF_TRES = ("requested_memory_mib", "gpu_type")


def facts_of_tres(memory: str, *gpus: str) -> dict[str, str | float]:
    """FACTS_OF_TRES as lists have them: `memory` is asked for that, `gpus` for types, in turn."""
    memory_said, types = memory_mib_of_tres(memory), filter(None, map(gpu_type_of_tres, gpus))
    said = {"requested_memory_mib": memory_said if memory_said > 0 else None, "gpu_type": next(types, None)}
    return {name: fact for name, fact in said.items() if fact is not None}


def _amount(text: str) -> float:
    return float(text) if _AMOUNT.fullmatch(text) else float("nan")


def elapsed_s(text: str) -> float | None:
    """Seconds of `[DD-[HH:]]MM:SS`; None for anything else."""
    match = _ELAPSED.fullmatch(text.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def minutes_s(text: str) -> float | None:
    """Seconds of a whole number of minutes; None for anything else."""
    return float(text) * 60 if _MINUTES.fullmatch(text.strip()) else None


def slurm_state(word: str) -> str | None:
    """The state for a word such as `CANCELLED by 1000` or the cut-off `CANCELLED+`; None when unknown."""
    words = word.split()
    return SLURM_STATES.get(words[0].rstrip("+").upper()) if words else None
