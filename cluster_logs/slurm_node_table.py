"""The table of nodes that `scontrol show node` tells: GPUs, cores, memory and partitions of each."""

import re

import pandas as pd

from cluster_logs.slurm_words import gpu_words, gpus_of_gres
from foundation.errors import BadInputError

FIRST_WORD = "NodeName="
_FIELD = re.compile(r"(?:^|\s)(NodeName|CPUTot|RealMemory|Gres|Partitions)=(\S*)")
_RECORD = re.compile(r"^\s*(NodeName|PartitionName)=", re.MULTILINE)


def is_slurm_node_table(text: str) -> bool:
    """Whether a text is what `scontrol show node` prints."""
    return text.lstrip().startswith(FIRST_WORD)


def read_slurm_node_table(text: str, place: str) -> pd.DataFrame:
    """Return a row a node: virtual_cluster (its first partition), nodes (1), gpus_per_node and `NODE_FACTS`.

    Nodes in no partition, on which no job can run, are left out; so is what is said of partitions. Raises
    BadInputError for a node that lacks a number, or is named twice, and where no node is left.
    """
    starts = [match.start() for match in _RECORD.finditer(text)]
    rows = []
    seen: set[str] = set()
    for begin, end in zip(starts, [*starts[1:], len(text)], strict=True):
        # The first of each: a reason, which people write, stands last and may hold anything.
        fields: dict[str, str] = {}
        for name, value in _FIELD.findall(text[begin:end]):
            fields.setdefault(name, value)
        node = fields.get("NodeName")
        if node is None:
            continue
        if node in seen:
            raise BadInputError(f"{place} names node {node!r} twice.", remedy="Keep one answer of scontrol.")
        seen.add(node)
        partitions = [name for name in fields.get("Partitions", "").split(",") if name and name != "(null)"]
        if partitions:
            rows.append(_row(node, partitions, fields, place))
    if not rows:
        raise BadInputError(
            f"{place} names no node of a partition.",
            remedy="Write what this prints: scontrol show node.",
        )
    return pd.DataFrame(rows)


def _row(node: str, partitions: list[str], fields: dict[str, str], place: str) -> dict[str, object]:
    gres = fields.get("Gres", "")
    numbers = {}
    for name in ("CPUTot", "RealMemory"):
        if not fields.get(name, "").isdecimal():
            raise BadInputError(
                f"{place}: node {node!r} has {name}={fields.get(name, '')!r}.", remedy="Is the file complete?"
            )
        numbers[name] = int(fields[name])
    types = dict.fromkeys(word.type for word in gpu_words(gres) if word.kind == "gpu" and word.type)
    return {
        "virtual_cluster": partitions[0],
        "nodes": 1,
        "gpus_per_node": gpus_of_gres(gres),
        "node": node,
        "partitions": ",".join(partitions) if len(partitions) > 1 else None,
        "gpu_type": "+".join(types) or None,
        "cpus_per_node": numbers["CPUTot"],
        "memory_mib_per_node": numbers["RealMemory"],
    }
