"""What accounting is asked for, and how Slurm writes times, resources and states; no library is needed."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from math import ceil, isnan, nan
from typing import NamedTuple

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
# What has come since, in the order in which it came: a file without a header is read by places.
_SINCE = (*OLDER_FIELDS, "account", "group", "qos", "eligible")
_PLACED = frozenset(map(str.lower, _SINCE))
# What sacct is asked for, in this order: what has come to the table of facts stands at the end.
DEFAULT_FIELDS = (
    *_SINCE,
    *(
        column.split("|")[0]
        for column in source_columns("sacct").values()
        if not _PLACED.intersection(column.split("|"))
    ),
)
# Between the columns of a log that the live scheduler or `lucid ingest` wrote, or that people export: no name
# holds it.
UNIT_SEPARATOR = "\x1f"

_READ = frozenset(map(str.lower, DEFAULT_FIELDS))
# What people export: what `lucid ingest` itself asks for, from when on a job might start, and the machines,
# from which sizes are proposed.
EXPORT_FIELDS = (*DEFAULT_FIELDS, *(name for name in ("Eligible", "NodeList") if name.lower() not in _READ))
# The one command for it, for any POSIX shell: pages, documents and errors show this text.
EXPORT_COMMAND = (
    "TZ=UTC SLURM_TIME_FORMAT='%Y-%m-%dT%H:%M:%S%z' sacct --allusers --allocations --duplicates \\\n"
    "  --parsable2 --noconvert --delimiter=\"$(printf '\\037')\" --starttime=now-90days --endtime=now \\\n"
    f"  --format={','.join(EXPORT_FIELDS)} > sacct.txt"
)

# Digits are 0 to 9, and not more of them than a hundred years need.
_ELAPSED = re.compile(r"(?:(?:([0-9]{1,9})-)?([0-9]{1,9}):)?([0-9]{1,9}):([0-9]{1,9})(?:\.[0-9]+)?")
_MINUTES = re.compile(r"[0-9]{1,12}")
_AMOUNT = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]+)?")
# An amount of memory, in MiB without a unit; before Slurm 21.08 sacct's ReqMem ended in what has so much.
_MEMORY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)([KMGTP]?)[nc]?")
# Slurm 16 and 17 say an amount of each core as one of each node, and leave in it the bit that tells them
# apart.
OF_EACH_CORE_MIB = 2.0**31
_MIB = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
# An entry about GPUs; commas in brackets part the numbers of devices: `gres/gpu:v100=2`, `shard:8(IDX:0,2)`.
_GPU_ENTRY = re.compile(
    r"(?:^|,)\s*(?:gres[:/])?(gpu|shard|mps)((?:[:=](?:\(null\)|[^,()])*)?)(?:\(([^()]*)\))?(?=,|\s*$)"
)
_COUNT = re.compile(r"([0-9]{1,15})([KMG]?)")
_THOUSANDS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
_NODES = re.compile(r"(?:^|,)node=([^,]*)")
# A slice of a GPU is known by its profile, or by what a site took of it: `a100_1g.5gb`, `3g.40gb`, `1g`.
_PROFILE = re.compile(r"(?:^|[^a-z0-9])([1-7])g(?:\.[0-9]+gb|$)", re.IGNORECASE)
_SLICES_OF_A_GPU = 7

_NODE_WORD = re.compile(r"[a-z_]+")
# The marks behind sinfo's words for a node's state, as scontrol spells them out.
NODE_MARKS: Mapping[str, str] = {
    "~": "powered_down",
    "#": "powering_up",
    "%": "powering_down",
    "!": "power_down",
    "*": "not_responding",
    "$": "maintenance",
    "@": "reboot_requested",
    "^": "reboot_issued",
    "-": "planned",
}
# What keeps a node from starting jobs (sinfo(1), scontrol(1), "NODE STATE CODES", with sinfo's short forms).
# Every version adds flags that do not: dynamic_norm, cloud, external, perfctrs, planned.
NODE_STARTS_NOTHING = frozenset(
    {"down", "drain", "drained", "draining", "drng", "power_drain", "fail", "failing", "failg", "error"}
    | {"err", "maint", "maintenance", "reserved", "resv", "not_responding", "blocked", "block", "unknown"}
    | {"unk", "future", "futr", "invalid_reg", "inval", "reboot_issued", "powering_down"}
)

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
    "REQUEUE_FED": JobState.PENDING,
    "REQUEUE_HOLD": JobState.PENDING,
    "RESIZING": JobState.RUNNING,
    "RESV_DEL_HOLD": JobState.PENDING,
    "REVOKED": JobState.CANCELLED,
    "RUNNING": JobState.RUNNING,
    "SIGNALING": JobState.RUNNING,
    "SPECIAL_EXIT": JobState.PENDING,
    "STAGE_OUT": JobState.RUNNING,
    "STOPPED": JobState.RUNNING,
    "SUSPENDED": JobState.RUNNING,
    "TIMEOUT": JobState.FAILED,
}


class GpuWord(NamedTuple):
    """An entry about GPUs in a list of Slurm's; `kind` is gpu, shard or mps, `detail` what brackets hold.

    `is_total`: in a list of TRES the entry without a type counts those with a type again.
    """

    kind: str
    type: str
    amount: float
    detail: str = ""
    is_total: bool = False

    @property
    def sevenths(self) -> float:
        """How many sevenths of a GPU slices (MIG) are; 0 of anything else."""
        profile = _PROFILE.search(self.type) if self.kind == "gpu" else None
        return 0.0 if profile is None else int(profile[1]) * self.amount


class HeldGpus(NamedTuple):
    """GPUs that a job touches, and what it has of each: `mps`, `shard` or `mig`; empty: whole ones."""

    gpus: float
    shared_by: str


def gpu_words(text: str) -> Iterator[GpuWord]:
    """Yield the entries about GPUs of a list, in whatever form Slurm writes it.

    TRES of sacct and squeue (`gres/gpu:a100=8,gres/mps=50`), requests (`gres:gpu:a100:2`), nodes
    (`gpu:a100:4(S:0-1),shard:8`) and what is in use there (`gpu:a100:2(IDX:0-1),mps:(null):1(IDX:0)`). A
    number alone is how many of any type; an amount that is none is NaN.
    """
    for kind, entry, detail in _GPU_ENTRY.findall(text):
        words = entry.strip().replace("(null)", "")
        if "=" in words:
            types, _, number = words.rpartition("=")
            yield GpuWord(kind, types.lstrip(":="), _amount(number), detail, is_total=not types)
            continue
        types, _, number = words.rpartition(":")
        counted = _COUNT.fullmatch(number)
        if counted is None:
            yield GpuWord(kind, words.lstrip(":"), 1.0, detail)
        else:
            yield GpuWord(kind, types.lstrip(":"), float(counted[1]) * _THOUSANDS[counted[2]], detail)


def gpus_held(words: Iterable[GpuWord], nodes: float = 1.0) -> HeldGpus:
    """What a job has by its words, on so many nodes.

    A job with shares of GPUs alone (gres/shard, gres/mps) has them of one GPU on each of its nodes. Slices of
    GPUs (MIG), which Slurm counts as GPUs, are the GPUs that their sevenths make up, and at least one a node.
    """
    total, typed, slices, sevenths, shares = None, 0.0, 0.0, 0.0, ""
    for word in words:
        if word.kind != "gpu":
            shares = word.kind if word.amount else shares
        elif word.is_total:
            total = word.amount
        elif word.sevenths:
            slices, sevenths = slices + word.amount, sevenths + word.sevenths
        else:
            typed += word.amount
    whole = typed if total is None else total
    if isnan(whole + slices + nodes):
        return HeldGpus(nan, "")
    if slices:
        whole -= 0.0 if total is None else min(slices, total)
        least = 1.0 if whole else min(nodes, slices)
        return HeldGpus(whole + max(least, ceil(sevenths / _SLICES_OF_A_GPU)), "" if whole else "mig")
    return HeldGpus(nodes, shares) if shares and not whole else HeldGpus(whole, "")


def held_by_tres(tres: str) -> HeldGpus:
    """GPUs in a TRES list such as `cpu=64,gres/gpu:a100=8,gres/gpu=8,node=1`, NaN when that is no number."""
    return gpus_held(gpu_words(tres), _nodes_of_tres(tres))


def node_words(state: str) -> frozenset[str]:
    """A node's state and flags, one word each: `idle~` and `IDLE+POWERED_DOWN` are idle, powered_down."""
    return frozenset(_NODE_WORD.findall(state.lower())) | {
        NODE_MARKS[mark] for mark in state if mark in NODE_MARKS
    }


def home_partition(listed: str, existing: Container[str] = ()) -> str:
    """The partition that a job belongs to: the one it ran in, or of those that it may run in the first.

    Of a job that ran Slurm names that one alone, and before the others where it is requeued. One that waits,
    or was cancelled then, may be in several (`-p a,b`): the first of them that exists. Without `existing`, or
    where none does, the first: Slurm takes no job for a partition that it does not have.
    """
    names = [name for name in listed.split(",") if name]
    return next((name for name in names if name in existing), next(iter(names), ""))


def gpus_of_tres(tres: str) -> float:
    """GPUs in a TRES list (`held_by_tres`)."""
    return held_by_tres(tres).gpus


def gpus_of_gres(gres: str) -> int:
    """GPUs in a node's GRES such as `gpu:a100:4(S:0-1),gpu:2,shard:8`."""
    gpus = gpus_held(gpu_words(gres)).gpus
    return int(gpus) if gpus >= 1 else 0


def memory_mib_of_tres(tres: str) -> float:
    """MiB in a TRES list such as `cpu=4,mem=64G`; 0 when it names none, NaN when that is no amount."""
    amounts = (entry.removeprefix("mem=") for entry in tres.split(",") if entry.startswith("mem="))
    return memory_mib(next(amounts, "0"))


def is_memory_of_whole_nodes(memory_mib: float, nodes: float, least_mib: float | None) -> bool:
    """Whether a request for so much memory on so many nodes asked for none, or for all (--mem=0).

    Where no default is set, such a job has in its request the memory of the partition's smallest node
    (`least_mib`; None: not known) on each of its nodes, whichever it gets (Slurm 22.05).
    """
    return least_mib is not None and memory_mib > 0 and memory_mib == least_mib * nodes


def as_asked(tres: str, least_mib: float | None) -> str:
    """A request's list without memory that was not asked for (`is_memory_of_whole_nodes`)."""
    if not is_memory_of_whole_nodes(memory_mib_of_tres(tres), _nodes_of_tres(tres), least_mib):
        return tres
    return ",".join(entry for entry in tres.split(",") if not entry.startswith("mem="))


def _nodes_of_tres(tres: str) -> float:
    nodes = _NODES.search(tres)
    return 1.0 if nodes is None else _amount(nodes[1])


def memory_mib(text: str) -> float:
    """MiB of `500M`, `62.5G`, `4Gn` (of each node) or `2000Mc` (of each core); NaN for anything else."""
    match = _MEMORY.fullmatch(text)
    return float("nan") if match is None else float(match[1]) * _MIB[match[2]]


def gpu_type_of_tres(tres: str) -> str | None:
    """The type of GPU that a list asks for (`a100` of `gres/gpu:a100=2`), several joined by `+`; None: any.

    In lower case, as slurmdbd keeps it.
    """
    types = {word.type.lower() for word in gpu_words(tres) if word.type and word.amount}
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
