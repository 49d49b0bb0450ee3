"""A site as Slurm's own words declare it: one SiteRules, and the account of the keys that were read."""

from dataclasses import dataclass, replace

from cluster_logs.site.left_out import left_out, slurm_keys
from cluster_logs.site.rules import Ignored, NodeReservation, Nodes, Partition, SiteRules, User
from cluster_logs.slurm_site.associations import read_associations, read_qos
from cluster_logs.slurm_site.conf_text import MOST_BYTES
from cluster_logs.slurm_site.declarations import Declarations, read_declarations
from cluster_logs.slurm_site.effects import ignored_options, ignored_setting
from cluster_logs.slurm_site.key_account import KeyAccount
from cluster_logs.slurm_site.nodes import NodeTable
from cluster_logs.slurm_site.partitions import read_partitions
from cluster_logs.slurm_site.settings import (
    Settings,
    preemption_rules,
    priority_rules,
    scheduler_rules,
)
from cluster_logs.slurm_site.values import bad, plugin
from foundation.errors import BadInputError
from foundation.storage import read_input, shown

# Options with values that stand under other keys.
_UNDER_OTHER_NAMES = {
    "priority": ("PriorityTier", "PriorityJobFactor"),
    **dict.fromkeys(("boards", "sockets", "socketsperboard", "corespersocket", "threadspercore"), ("CPUs",)),
}


@dataclass(frozen=True, slots=True)
class SiteReading:
    """A site, and the keys of Slurm's that it holds; `rules.ignored` are the others."""

    rules: SiteRules
    modelled: tuple[str, ...]

    @property
    def ignored(self) -> tuple[Ignored, ...]:
        """Return the keys that it does not hold, each with its effect on waits."""
        return self.rules.ignored


@dataclass(frozen=True, slots=True)
class SacctmgrAnswers:
    """What sacctmgr printed, and where that stands; None: it was not given."""

    assoc: str | None = None
    qos: str | None = None
    assoc_place: str = ""
    qos_place: str = ""


def read_slurm_files(conf: str, assoc: str | None = None, qos: str | None = None) -> SiteReading:
    """Return the site of a slurm.conf and of what sacctmgr printed into files.

    Raises NotFoundError for a file that is not there, BadInputError naming file, line and value for what
    Slurm could not use either.
    """
    declared = read_declarations(conf)
    texts = [None if path is None else _text_of(path) for path in (assoc, qos)]
    accounting = SacctmgrAnswers(texts[0], texts[1], shown(assoc or ""), shown(qos or ""))
    if not declared.settings and not declared.nodes and not declared.partitions:
        raise BadInputError(f"{shown(conf)} declares nothing.", remedy="Name a slurm.conf.")
    return site_of(declared, accounting, shown(conf))


def site_of(
    declared: Declarations,
    accounting: SacctmgrAnswers,
    place: str,
    *,
    reservations: tuple[NodeReservation, ...] = (),
    account: KeyAccount | None = None,
    tells_all: bool = False,
) -> SiteReading:
    """Return the site of declarations that were read at `place`.

    `account` has the keys that were read before; `tells_all`: the declarations have each key of Slurm's,
    whether the site has set it or not.
    """
    account = account or KeyAccount()
    settings = Settings(declared.settings, account)
    cluster = declared.settings.get("clustername")
    name = "" if cluster is None else cluster.value
    priority = priority_rules(settings, account)
    scheduler = scheduler_rules(settings, account)
    preemption = preemption_rules(settings, account)
    whole_nodes = _gives_whole_nodes(settings, account)
    nodes = NodeTable(declared)
    partitions = read_partitions(declared, nodes)
    for what, found in (("node", declared.nodes), ("partition", declared.partitions)):
        if not found:
            raise BadInputError(f"{place} declares no {what}.", remedy="Does it include the file that does?")
    qos = () if accounting.qos is None else read_qos(accounting.qos, accounting.qos_place, account)
    accounts, users = (
        ((), ())
        if accounting.assoc is None
        else read_associations(accounting.assoc, accounting.assoc_place, name, account)
    )
    _check_qos(declared, partitions, users, {each.name for each in qos})
    _tell_lines(declared, nodes, account, tells_all=tells_all)
    for pair in settings.left():
        for ignored in ignored_setting(pair, known_only=tells_all):
            account.ignored(*ignored)
    _tell_what_lacks(declared, accounting, account)
    rules = SiteRules(
        name=name,
        priority=priority,
        scheduler=scheduler,
        preemption=preemption,
        qos=qos,
        accounts=accounts,
        users=users,
        partitions=tuple(_as_given_out(each, whole_nodes, preemption.mode) for each in partitions),
        nodes=nodes.rules(),
        reservations=reservations,
    )
    all_ignored = (*account.ignored_keys(), *left_out(rules))
    return SiteReading(replace(rules, ignored=all_ignored), account.modelled_keys())


def _gives_whole_nodes(settings: Settings, account: KeyAccount) -> bool:
    """Return whether a job has its nodes alone (SelectType=select/linear)."""
    select = settings.take("SelectType")
    if select is None:
        account.ignored(
            "SelectType",
            "(not set)",
            "Slurm before 23.11 gives jobs whole nodes then (select/linear), later ones cores and GPUs, as "
            "the replay does",
        )
        return False
    kind = plugin(select, "linear", "cons_res", "cons_tres", "cray_aries", "cray")
    if kind.startswith("cray"):
        account.ignored(
            "SelectType", select.value, "nodes are given out by blades; in the replay by cores and GPUs"
        )
    return kind == "linear"


def _as_given_out(partition: Partition, whole_nodes: bool, cluster_mode: str) -> Partition:
    """Return a partition as its jobs meet it; of a mode that is the cluster's nothing need be said."""
    alone = whole_nodes and partition.over_subscribe == "no"
    return replace(
        partition,
        over_subscribe="exclusive" if alone else partition.over_subscribe,
        preempt_mode=None if partition.preempt_mode == cluster_mode else partition.preempt_mode,
    )


def _check_qos(
    declared: Declarations, partitions: tuple[Partition, ...], users: tuple[User, ...], known: set[str]
) -> None:
    """Raise BadInputError for a partition or a user with a QOS that the table of these does not have."""
    if not known:
        return
    for line, partition in zip(declared.partitions, partitions, strict=True):
        if partition.qos and partition.qos not in known:
            raise bad(line.options["qos"], f"is the QOS of partition {line.name!r} and none that there is")
    for user in users:
        for name in (*user.qos, *filter(None, (user.default_qos,))):
            if name not in known:
                raise BadInputError(
                    f"User {user.name!r} of account {user.account!r} has the QOS {name!r}, which is none of "
                    f"{', '.join(sorted(known))}.",
                    remedy="Were both tables written at one time, and of one cluster?",
                )


def _tell_lines(declared: Declarations, nodes: NodeTable, account: KeyAccount, *, tells_all: bool) -> None:
    """Tell the account of the options of nodes and partitions."""
    for kind, lines, holds in (
        ("node", declared.nodes, Nodes),
        ("partition", declared.partitions, Partition),
    ):
        held = {key.key.lower(): key for key in slurm_keys(holds).values()}
        for line in lines:
            for key in filter(held.__contains__, line.options):
                account.holds(held[key])
            for ignored in ignored_options(line, kind, held, known_only=tells_all):
                account.ignored(*ignored)
            for key in filter(_UNDER_OTHER_NAMES.__contains__, line.options):
                account.modelled(*_UNDER_OTHER_NAMES[key])
    for name, pair in nodes.uncounted_gres.items():
        account.ignored(
            f"Gres: {name}",
            pair.value,
            f"GresTypes does not name {name!r}, so Slurm does not count it, and no job gets it",
        )
    for pair in nodes.unknown_down:
        account.ignored("DownNodes", pair.value, "no NodeName line declares it: Slurm passes over it")


def _tell_what_lacks(declared: Declarations, accounting: SacctmgrAnswers, account: KeyAccount) -> None:
    """Tell of settings that need associations or QOS which were not given."""
    needs_assoc = ("priorityweightfairshare", "priorityweightassoc")
    for text, keys, effect in (
        (
            accounting.assoc,
            needs_assoc,
            "no associations were given: all users have equal shares in the replay",
        ),
        (accounting.qos, ("priorityweightqos",), "no QOS were given: all jobs have one in the replay"),
    ):
        for key in keys if text is None else ():
            pair = declared.settings.get(key)
            if pair is not None and pair.value not in ("0", ""):
                account.ignored(pair.key, pair.value, effect)


def _text_of(path: str) -> str:
    return read_input(path, most_bytes=MOST_BYTES).decode(errors="backslashreplace")
