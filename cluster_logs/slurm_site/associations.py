"""Accounts, users and qualities of service, as `sacctmgr -P show assoc tree` and `show qos` print them (also
with -p, or without a header).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster_logs.site.declared import hints_of, plain
from cluster_logs.site.left_out import slurm_keys
from cluster_logs.site.rules import ROOT, Account, Limits, Qos, User
from cluster_logs.slurm_site.conf_text import Pair, SourcePlace
from cluster_logs.slurm_site.key_account import KeyAccount
from cluster_logs.slurm_site.values import bad, preempt_mode, tres_amounts, words
from cluster_logs.slurm_words import elapsed_s
from foundation.errors import BadInputError

ASSOC_COMMAND = "sacctmgr -P show assoc tree"
QOS_COMMAND = "sacctmgr -P show qos"
# What Slurm 22.05 prints without a format.
_ASSOC = """\
cluster account user partition share priority grpjobs grptres grpsubmit grpwall grptresmins maxjobs maxtres
maxtrespernode maxsubmit maxwall maxtresmins qos defqos grptresrunmins
"""
_QOS = """\
name priority gracetime preempt preemptexempttime preemptmode flags usagethres usagefactor grptres grptresmins
grptresrunmins grpjobs grpsubmit grpwall maxtres maxtrespernode maxtresmins maxwall maxtrespu maxjobspu
maxsubmitpu maxtrespa maxjobspa maxsubmitpa mintres
"""
# Column -> what else sacctmgr calls it, in headers or in formats.
_ALSO: Mapping[str, tuple[str, ...]] = {
    "share": ("fairshare", "rawshares"),
    "grpsubmitjobs": ("grpsubmit",),
    "maxsubmit": ("maxsubmitjobs",),
    "maxtres": ("maxtresperjob", "maxtrespj"),
    "maxwall": ("maxwalldurationperjob",),
    "defqos": ("defaultqos",),
    "maxtrespu": ("maxtresperuser",),
    "maxjobspu": ("maxjobsperuser",),
    "maxsubmitpu": ("maxsubmitjobspu", "maxsubmitjobsperuser"),
    "maxtrespa": ("maxtresperaccount",),
    "maxjobspa": ("maxjobsperaccount",),
    "maxsubmitpa": ("maxsubmitjobspa", "maxsubmitjobsperaccount"),
}
_TRES_OF_OLD = {"grpcpus": "cpu", "grpnodes": "node", "grpmem": "mem", "maxcpus": "cpu", "maxnodes": "node"}
_KEEPS_WAITING = "a job beyond it waits in Slurm, or is refused; the replay starts it"
_AGES = "only so many jobs gain age; in the replay all do"
_EFFECTS: Mapping[str, str] = {
    "UsageThres": "jobs of users below that share wait in Slurm; the replay starts them",
    "GrpTRESMins": "jobs wait in Slurm once so much is used up, until it decays; the replay starts them",
    "GrpTRESRunMins": "jobs wait in Slurm while those that run have so much left; the replay starts them",
    "GrpWall": "jobs wait in Slurm once so much time is used up; the replay starts them",
    "MaxTRESMins": _KEEPS_WAITING,
    "MaxTRESPerNode": _KEEPS_WAITING,
    "MinTRES": "a job that asks for less is refused",
    "LimitFactor": "limits of accounts are multiplied by it; in the replay they hold as they are",
    "MinPrioThresh": "jobs below that priority are not planned for; in the replay they are",
    "GrpJobsAccrue": _AGES,
    "MaxJobsAccrue": _AGES,
    "MaxJobsAccruePU": _AGES,
    "MaxJobsAccruePA": _AGES,
}
_NAMES = {name.lower(): name for name in _EFFECTS}
_NO_EFFECT = frozenset(
    {"", "cluster", "id", "lft", "rgt", "lineage", "parentid", "descr", "description", "org", "organization"}
    | {"comment", "deletedassociations", "withdeleted", "coordinators", "admin"}
)


@dataclass(frozen=True, slots=True)
class Row:
    """A row; its cells by the column's name in lower case without spaces. An empty one says nothing."""

    place: SourcePlace
    cells: Mapping[str, str]

    def get(self, *columns: str) -> Pair | None:
        """Return the first cell of these columns that says something."""
        for column in columns:
            if text := self.cells.get(column, "").strip():
                return Pair(column, text, self.place)
        return None

    def text(self, *columns: str) -> str:
        """Return what a cell says; empty: nothing."""
        pair = self.get(*columns)
        return "" if pair is None else pair.value


def read_table(text: str, file: str, first: str, usual: Sequence[str], command: str) -> list[Row]:
    """Return the rows of a table.

    A header names the columns, in any order; `first` is one that each has. Without a header they are `usual`.
    Raises BadInputError for a text that is no such table, with the `command` that prints one.
    """
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and "|" in line
    ]
    remedy = f"Write what `{command}` prints."
    if not lines:
        raise BadInputError(f"{file} holds no table with | between its columns.", remedy=remedy)
    columns = [_name(cell) for cell in lines[0][1].split("|")]
    if first in columns:
        del lines[0]
    else:
        columns = list(usual)
        if len(lines[0][1].split("|")) == len(usual) + 1:  # -p: one behind the last column, too
            columns.append("")
    rows = []
    for number, line in lines:
        cells = line.split("|")
        if len(cells) != len(columns):
            raise BadInputError(
                f"{file}, line {number}: {len(cells)} columns instead of {len(columns)}: {line[:200]!r}.",
                remedy=remedy,
            )
        rows.append(Row(SourcePlace(file, number), dict(zip(columns, cells, strict=True))))
    return rows


def _name(cell: str) -> str:
    return cell.replace(" ", "").lower()


def read_qos(text: str, file: str, account: KeyAccount) -> tuple[Qos, ...]:
    """Return the qualities of service of a table. Raises BadInputError for what is none."""
    found: dict[str, Qos] = {}
    for row in read_table(text, file, "name", _QOS.split(), QOS_COMMAND):
        name = row.text("name")
        if not name or name in found:
            what = f"QOS {name!r} stands twice" if name else "a QOS without a name"
            raise BadInputError(f"{row.place}: {what}.", remedy=f"Write what `{QOS_COMMAND}` prints.")
        fields = _fields(Qos, row, account, f"QOS {name}")
        found[name] = Qos(**(fields | {"name": name}))
    for name, qos in found.items():
        for other in qos.preempts:
            if other not in found:
                raise BadInputError(
                    f"{file}: QOS {name!r} preempts {other!r}, which is no QOS there.",
                    remedy="Is the file complete?",
                )
    return tuple(found.values())


def read_associations(
    text: str, file: str, cluster: str, account: KeyAccount
) -> tuple[tuple[Account, ...], tuple[User, ...]]:
    """Return the accounts and the users of a cluster (empty: of the one that the table has).

    An account's parent is known by the indentation of `tree`, or by a column ParentName. Raises BadInputError
    for what is no such table.
    """
    rows = _of_cluster(read_table(text, file, "account", _ASSOC.split(), ASSOC_COMMAND), file, cluster)
    users_rows = [row for row in rows if row.text("user")]
    accounts = _accounts([row for row in rows if not row.text("user")], file, account)
    seen: set[tuple[str, str, str]] = set()
    of_user = Counter(row.text("user") for row in users_rows if not row.text("partition"))
    users, names = [], set[str]()
    for row in users_rows:
        name, owner, partition = row.text("user"), row.text("account"), row.text("partition")
        if owner not in accounts:
            raise BadInputError(
                f"{row.place}: user {name!r} is in account {owner!r}, which has no row.",
                remedy="Is the file complete?",
            )
        if (name, owner, partition) in seen:
            raise BadInputError(f"{row.place}: user {name!r} stands in account {owner!r} twice.")
        seen.add((name, owner, partition))
        fields = _fields(User, row, account, f"user {name} of {owner}")
        of_association = {"name": name, "account": owner, "partition": partition}
        users.append(User(**(fields | of_association | {"default_account": name not in names})))
        names.add(name)
    if several := sorted(name for name, count in of_user.items() if count > 1):
        account.ignored(
            "DefaultAccount",
            ", ".join(several[:5]) + (f" and {len(several) - 5:,} more" if len(several) > 5 else ""),
            "which account is a user's default this table does not say: a job without an account is put into "
            "the first",
        )
    return tuple(accounts.values()), tuple(users)


def _of_cluster(rows: list[Row], file: str, cluster: str) -> list[Row]:
    clusters = sorted({name for row in rows if (name := row.text("cluster"))})
    if len(clusters) > 1:
        # slurmdbd keeps names of clusters in lower case.
        if cluster.lower() not in map(str.lower, clusters):
            known = f"is {cluster!r}" if cluster else "has no ClusterName"
            raise BadInputError(
                f"{file} holds the clusters {', '.join(clusters)}, and the configuration {known}.",
                remedy=f"Write what `{ASSOC_COMMAND} cluster=NAME` prints.",
            )
        rows = [row for row in rows if row.text("cluster").lower() == cluster.lower()]
    return rows


def _accounts(rows: Iterable[Row], file: str, account: KeyAccount) -> dict[str, Account]:
    accounts: dict[str, Account] = {}
    above: list[tuple[int, str]] = []  # of a tree: indentation and name of each account that is open
    has_parents = False
    for row in rows:
        name = row.text("account")
        if not name:
            raise BadInputError(f"{row.place}: an association without an account.")
        if name in accounts:
            raise BadInputError(f"{row.place}: account {name!r} stands twice.")
        depth = len(row.cells["account"]) - len(row.cells["account"].lstrip())
        while above and above[-1][0] >= depth:
            above.pop()
        parent = row.text("parentname") or (above[-1][1] if above else "")
        above.append((depth, name))
        has_parents = has_parents or depth > 0 or bool(row.text("parentname"))
        fields = _fields(Account, row, account, f"account {name}")
        of_account = {"name": name, "parent": parent or ROOT}
        accounts[name] = Account(**(fields | of_account))
    if has_parents:
        account.modelled("ParentName")
    elif len(accounts) > 2:
        account.ignored(
            "ParentName",
            "(not given)",
            f"which account is above which this table does not say: all are below root, so fair share is "
            f"another one where accounts have accounts; write what `{ASSOC_COMMAND}` prints",
        )
    for name, each in accounts.items():
        if each.parent not in accounts and each.parent != ROOT:
            raise BadInputError(
                f"{file}: account {name!r} is below {each.parent!r}, which has no row.",
                remedy="Is the file complete?",
            )
    return accounts


def _fields(kind: type[Limits], row: Row, account: KeyAccount, of: str) -> dict[str, Any]:
    """Return the fields of a declaration that a row sets, and enter all that it says in the account."""
    fields: dict[str, Any] = {}
    used = {"name", "account", "user", "partition", "parentname"}
    for name, key in slurm_keys(kind).items():
        column = key.key.replace(" ", "").lower()
        columns = (column, *_ALSO.get(column, ()))
        used.update(columns)
        pair = row.get(*columns)
        if pair is None or name in ("partition", "parent"):
            continue
        read = _cell(name, plain(hints_of(kind)[name]), pair)
        if read is not None:
            fields[read[0]] = read[1]
            account.holds(key)
    for column, tres in _TRES_OF_OLD.items():
        if (pair := row.get(column)) is not None:
            field = "grp_tres" if column.startswith("grp") else "max_tres_per_job"
            fields[field] = {**fields.get(field, {}), tres: _count(pair)}
            used.add(column)
    for column in row.cells:
        if column not in used | _NO_EFFECT and (pair := row.get(column)) is not None:
            name = _NAMES.get(column, column)
            account.ignored(name, f"{of}: {pair.value}", _EFFECTS.get(name, "not known here"))
    return fields


def _cell(name: str, hint: Any, pair: Pair) -> tuple[str, Any] | None:
    """Return the field that a cell sets and its value; None where it says what holds anyway."""
    if name == "shares":
        return ("shares_parent", True) if pair.value.lower() == "parent" else (name, _count(pair))
    if name == "shares_parent":
        return None
    if name == "preempt_mode":
        return None if pair.value.lower() == "cluster" else (name, preempt_mode(pair))
    if name.endswith("_s"):
        seconds = elapsed_s(pair.value)
        if seconds is None:
            raise bad(pair, "is no time", "Write D-HH:MM:SS.")
        return name, seconds
    if name == "usage_factor":
        try:
            return name, float(pair.value)
        except ValueError:
            raise bad(pair, "is no number") from None
    if "tres" in name:
        amounts = tres_amounts(pair.value)
        if amounts is None:
            raise bad(pair, "are no amounts of TRES", "Write cpu=100,gres/gpu=8.")
        return name, amounts
    if hint in (str,):
        return name, pair.value
    return name, words(pair) if name in ("qos", "preempts", "flags") else _count(pair)


def _count(pair: Pair) -> int:
    if not pair.value.isascii() or not pair.value.isdigit():
        raise bad(pair, "is no whole number")
    return int(pair.value)
