"""What a declaration says of itself twice, or of what it does not have: `site.toml` is edited by people.

A circle of accounts or of preempting QOS has no order that a scheduler could follow; Slurm keeps both out of
its database, and a file is checked by no one but this.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from cluster_logs.host_lists import listed_hosts
from foundation.errors import BadInputError

if TYPE_CHECKING:
    from cluster_logs.site.rules import SiteRules


def check_site(site: "SiteRules", root: str) -> None:
    """Raise BadInputError for a name that stands twice, that there is not, or a circle of names."""
    for what, names in (
        ("QOS", [each.name for each in site.qos]),
        ("Account", [each.name for each in site.accounts]),
        ("Partition", [each.name for each in site.partitions]),
    ):
        _once(what, names)
    users = [(each.name, each.account, each.partition) for each in site.users]
    twice = next((user for user, count in Counter(users).items() if count > 1), None)
    if twice is not None:
        raise BadInputError(
            f"User {twice[0]!r} stands twice in account {twice[1]!r}.", remedy="Declare each once."
        )
    accounts = {each.name for each in site.accounts} | {root}
    for each in site.accounts:
        if each.parent not in accounts:
            raise BadInputError(
                f"Account {each.name!r}: parent is {each.parent!r}, which is not declared.",
                remedy=f"Declare it, or write {root}.",
            )
    _no_circle(
        {each.name: (each.parent,) for each in site.accounts if each.name != root}, "Account", "is below"
    )
    declared = {each.name for each in site.qos}
    for qos in site.qos:
        unknown = next((name for name in qos.preempts if name not in declared), None)
        if unknown is not None:
            raise BadInputError(
                f"QOS {qos.name!r}: preempts {unknown!r}, which is not declared.",
                remedy="Declare it, or leave it out.",
            )
    _no_circle({each.name: each.preempts for each in site.qos}, "QOS", "preempts")
    for owner, key, lists in chain(
        ((f"Partition {each.name!r}", "nodes", each.nodes) for each in site.partitions),
        (("Nodes", "names", each.names) for each in site.nodes),
    ):
        for text in lists:
            try:
                listed_hosts(text)
            except ValueError as error:
                raise BadInputError(
                    f"{owner}: {key} has {text!r}, which is no list of nodes: {error}.",
                    remedy="Write names as n[1-4,7],login.",
                ) from None


def _once(what: str, names: Iterable[str]) -> None:
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise BadInputError(f"{what} {twice!r} stands twice.", remedy="Declare each once.")


def _no_circle(above: Mapping[str, tuple[str, ...]], what: str, verb: str) -> None:
    """Raise BadInputError where a name leads back to itself; names without a row lead nowhere."""
    left = {name: {other for other in others if other in above} for name, others in above.items()}
    while free := {name for name, others in left.items() if not others}:
        left = {name: others - free for name, others in left.items() if name not in free}
    if left:
        first = min(left)
        raise BadInputError(
            f"{what} {first!r} {verb} itself, by {', '.join(map(repr, sorted(left)))}.",
            remedy="Break the circle.",
        )
