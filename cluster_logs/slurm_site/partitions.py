"""Partitions of a slurm.conf: what a PartitionName line gives them."""

from dataclasses import replace
from typing import Literal, cast

from cluster_logs.site.rules import Partition
from cluster_logs.slurm_site.declarations import ConfLine, Declarations
from cluster_logs.slurm_site.nodes import NodeTable
from cluster_logs.slurm_site.values import (
    bad,
    flag,
    minutes_as_s,
    one_of,
    preempt_mode,
    tres_weights,
    whole_number,
    whole_number_or_none,
    words,
)

# What a line may say for "the cluster's", "all" or "none", in files and in what scontrol shows.
_NOTHING = frozenset({"", "all", "n/a", "none", "(null)"})


def read_partitions(declared: Declarations, nodes: NodeTable) -> tuple[Partition, ...]:
    """Return the partitions in their order.

    Raises BadInputError for a name that stands twice, for nodes that no line declares and for a value that
    is none.
    """
    partitions: dict[str, Partition] = {}
    default = None
    for line in declared.partitions:
        if line.name in partitions:
            raise bad(line.options["partitionname"], "declares the partition again", "Slurm takes each once.")
        partitions[line.name] = _read(line, nodes)
        default = line.name if partitions[line.name].default else default
    # Where several are, the last is; a site has one.
    return tuple(replace(each, default=each.name == default) for each in partitions.values())


def _read(line: ConfLine, nodes: NodeTable) -> Partition:
    both = line.get("priority")
    tier, factor = (both or line.get(key) for key in ("prioritytier", "priorityjobfactor"))
    listed = line.get("nodes")
    max_time_s, default_time_s = _time_s(line, "maxtime"), _time_s(line, "defaulttime")
    state, default, min_nodes, max_nodes = (
        line.get(key) for key in ("state", "default", "minnodes", "maxnodes")
    )
    weights = line.get("tresbillingweights")
    grace = line.get("gracetime")
    return Partition(
        name=line.name,
        nodes=() if listed is None or listed.value in ("", "(null)") else nodes.named_by(listed, line.name),
        default=default is not None and flag(default),
        # What a partition that drains has queued waits, as in one that is down.
        up=state is None or one_of(state, "up", "down", "drain", "inactive") == "up",
        priority_tier=1 if tier is None else whole_number(tier),
        priority_job_factor=1 if factor is None else whole_number(factor),
        max_time_s=max_time_s,
        # A default beyond the longest is none (22.05.8).
        default_time_s=None if (default_time_s or 0) > (max_time_s or float("inf")) else default_time_s,
        min_nodes=0 if min_nodes is None else whole_number(min_nodes),
        max_nodes=None if max_nodes is None else whole_number_or_none(max_nodes),
        over_subscribe=_over_subscribe(line),
        preempt_mode=preempt_mode(line.get("preemptmode")),
        grace_time_s=0.0 if grace is None else float(whole_number(grace)),
        qos=_word(line, "qos"),
        allow_accounts=_names(line, "allowaccounts"),
        deny_accounts=_names(line, "denyaccounts"),
        allow_qos=_names(line, "allowqos"),
        deny_qos=_names(line, "denyqos"),
        billing_weights={} if weights is None else tres_weights(weights),
    )


def _time_s(line: ConfLine, key: str) -> float | None:
    pair = line.get(key)
    if pair is None or _is_nothing(pair.value):
        return None
    return minutes_as_s(pair)


def _over_subscribe(line: ConfLine) -> Literal["no", "exclusive", "yes", "force"]:
    pair = line.get("oversubscribe")
    if pair is None:
        # Since 26.05 a key of its own.
        alone = line.get("exclusive")
        return "exclusive" if alone is not None and alone.value.lower() == "node" else "no"
    word = pair.value.partition(":")[0].lower()
    if word not in ("no", "exclusive", "yes", "force"):
        raise bad(pair, "is not known to Slurm", "It knows: NO, EXCLUSIVE, YES, FORCE.")
    return cast('Literal["no", "exclusive", "yes", "force"]', word)


def _word(line: ConfLine, key: str) -> str:
    pair = line.get(key)
    return "" if pair is None or _is_nothing(pair.value) else pair.value


def _names(line: ConfLine, key: str) -> tuple[str, ...]:
    pair = line.get(key)
    return () if pair is None or _is_nothing(pair.value) else words(pair)


def _is_nothing(text: str) -> bool:
    return text.lower() in _NOTHING
