"""Fair tree: users ranked by what they and their accounts used of their shares (Slurm's default since 19.05).

At each level of the tree of accounts, siblings are ordered by share / used, each as a part of its parent's;
users of a better account go before all of a worse one. A user's factor is its rank / number of
users. Usage decays, and is counted, at each calculation and at the end of a job.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from cluster_logs.site.rules import ROOT, SiteRules

# Slurm computes the decay of a second by this, and not by ln 2.
_LOG_2 = 0.693


@dataclass(slots=True, eq=False)
class Association:
    """An account, or a user in one."""

    name: str
    is_user: bool
    shares: int = 1
    shares_parent: bool = False
    parent: "Association | None" = None
    children: "list[Association]" = field(default_factory=list)
    usage: float = 0.0
    level: float = 0.0
    factor: float = 0.0


class ShareTree:
    """The accounts and users of a site, with what they used. Those that are not declared have one share."""

    def __init__(self, site: SiteRules) -> None:
        rules = site.priority
        self._fair_tree = rules.fair_tree
        self._decay = 1.0 - _LOG_2 / rules.decay_half_life_s if rules.decay_half_life_s else 1.0
        self.root = Association(ROOT, is_user=False)
        self._accounts = {ROOT: self.root}
        self._users: dict[tuple[str, str], Association] = {}
        for account in site.accounts:
            if account.name != ROOT:
                self._accounts[account.name] = Association(
                    account.name, is_user=False, shares=account.shares, shares_parent=account.shares_parent
                )
        for account in site.accounts:
            if account.name != ROOT:
                self._hang(self._accounts[account.name], self._accounts.get(account.parent, self.root))
        for user in site.users:
            child = Association(user.name, is_user=True, shares=user.shares, shares_parent=user.shares_parent)
            self._users[user.name, user.account] = child
            self._hang(child, self._account(user.account))
        self._default = {user.name: user.account for user in reversed(site.users) if user.default_account}

    def _hang(self, child: Association, parent: Association) -> None:
        child.parent = parent
        parent.children.append(child)

    def _account(self, name: str) -> Association:
        account = self._accounts.get(name)
        if account is None:
            account = self._accounts[name] = Association(name, is_user=False)
            self._hang(account, self.root)
        return account

    def account_of(self, user: str | None, account: str | None) -> str:
        """Return the account of a job; its user's default one if it names none."""
        return account or self._default.get(user or "", ROOT)

    def of(self, user: str | None, account: str | None) -> Association:
        """Return a user's association in an account."""
        key = (user or "", self.account_of(user, account))
        association = self._users.get(key)
        if association is None:
            association = self._users[key] = Association(key[0], is_user=True)
            self._hang(association, self._account(key[1]))
        return association

    def charge(self, association: Association, billing: float, seconds: float) -> None:
        """Count what a job used in some seconds, by its user and all accounts above."""
        used = billing * seconds * self._decay**seconds
        each: Association | None = association
        while each is not None:
            each.usage += used
            each = each.parent

    def decay(self, seconds: float) -> None:
        """Let all usage decay."""
        by = self._decay**seconds
        if by != 1.0:
            for each in (*self._accounts.values(), *self._users.values()):
                each.usage *= by

    def rank(self) -> None:
        """Compute everybody's factor anew."""
        if self._fair_tree:
            self._places = float(len(self._users))
            self._rank = self._untied = self._places
            self._walk(self.root.children, tied=False)
        else:
            for user in self._users.values():
                user.factor = self._classic(user)

    def _walk(self, siblings: Iterable[Association], *, tied: bool) -> None:
        """Rank users below siblings, the most underserved first; tied accounts are merged."""
        ordered = list(siblings)
        for each in ordered:
            each.level = _level(each)
        ordered.sort(key=lambda each: (-each.level, not each.is_user))
        previous: float | None = None
        at = 0
        while at < len(ordered):
            each = ordered[at]
            equal = tied if at == 0 and tied else previous == each.level
            previous = each.level
            at += 1
            if each.is_user:
                if not equal:
                    self._rank = self._untied
                each.factor = self._rank / self._places
                self._untied -= 1
                continue
            merged = list(each.children)
            while at < len(ordered) and not ordered[at].is_user and ordered[at].level == each.level:
                merged += ordered[at].children
                at += 1
            self._walk(merged, tied=equal)

    def _classic(self, user: Association) -> float:
        """Return 2^(-usage / share) of a user, usage weighted down the tree (NO_FAIR_TREE)."""
        total = self.root.usage
        if not total:
            return 1.0
        share, effective = 1.0, 0.0
        path: list[Association] = []
        above: Association | None = user
        while above is not None and above is not self.root:
            path.append(above)
            above = above.parent
        for each in reversed(path):
            part = _share(each)
            share *= part
            used = each.usage / total
            effective = used if each.parent is self.root else used + (effective - used) * part
        return 2.0 ** -(effective / share) if share else 0.0


def _share(each: Association) -> float:
    siblings = each.parent.children if each.parent is not None else [each]
    total = sum(sibling.shares for sibling in siblings)
    return each.shares / total if total else 0.0


def _level(each: Association) -> float:
    """Share / used, both as a part of the parent's."""
    if each.shares_parent:
        return inf
    share = _share(each)
    parent = each.parent
    used = each.usage / parent.usage if parent is not None and parent.usage else 0.0
    if not share:
        return 0.0
    return share / used if used else inf
