"""What an operator sets of nodes on loan: the table `[loans]` of the live settings."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from foundation.errors import BadInputError
from live_scheduler.live_settings import Mode
from parts.lending.replay.released_loans import ReleasedLoans

# What Slurm takes for a partition's name, and what neither a list of names nor a line can be broken with.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")


@dataclass(frozen=True)
class NodeLoanSettings:
    """The table `[loans]`; without it no node changes its partition.

    - `mode`: how much is done: observe (log what would be), advise (say it in answers and metrics) or
      control. It does not depend on the mode of the queue.
    - `lender`: the partition of inference, which lends its nodes.
    - `borrower`: the partition that holds the nodes on loan. Jobs there may be requeued at any time.
    - `rules`: how many are lent and which are taken back (a table: headroom, period_s, lend, reclaim, usage,
      quantile ...), in the place of what the release pins.
    - `least_kept`: so many nodes stay with inference at least.
    - `most_lent`: no more are on loan at once.
    - `never_lent`: nodes that are never lent (names as Slurm lists them).
    - `nodes_per_minute`: no more nodes are lent or taken back in a minute.
    - `usage_command`: a program and its words that print the usage, a share from 0 to 1.
    - `usage_file`: a file that holds it.
    - `usage_url`: a Prometheus that is asked for `usage_query`. Without any of the three, nodes of the lender
      that have jobs count as used.
    - `usage_query`: what it is asked (PromQL, one number).
    - `usage_every_s`: how often the usage is read.
    - `usage_lost_after_s`: without a usage for so long every node is taken back.
    """

    mode: Mode = Mode.OBSERVE
    lender: str = "inference"
    borrower: str = "onloan"
    rules: Mapping[str, Any] = field(default_factory=dict)
    least_kept: int = 0
    most_lent: int = 100_000
    never_lent: tuple[str, ...] = ()
    nodes_per_minute: int = 60
    usage_command: tuple[str, ...] = ()
    usage_file: str = ""
    usage_url: str = ""
    usage_query: str = ""
    usage_every_s: float = 30.0
    usage_lost_after_s: float = 300.0

    def __post_init__(self) -> None:
        """Refuse values that no cluster can be run with."""
        self.rules_in_force()
        for name in ("lender", "borrower"):
            if not _NAME.fullmatch(getattr(self, name)):
                raise BadInputError(
                    f"{name} is {getattr(self, name)!r}.", remedy="Give the name of one partition."
                )
        if self.lender == self.borrower:
            raise BadInputError(
                f"lender and borrower are both {self.lender!r}.",
                remedy="Give nodes on loan a partition of their own (empty in slurm.conf).",
            )
        for name, least in (("least_kept", 0), ("most_lent", 0), ("nodes_per_minute", 1)):
            if getattr(self, name) < least:
                raise BadInputError(f"{name} is {getattr(self, name)!r}.", remedy=f"Give {least} or more.")
        for name in ("usage_every_s", "usage_lost_after_s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise BadInputError(
                    f"{name} is {getattr(self, name)!r}.", remedy="Give a number of seconds above 0."
                )
        self._check_source()

    def rules_in_force(self, released: Mapping[str, Any] | None = None) -> ReleasedLoans:
        """Return the rules: those of a release, with what is set here in their place."""
        return ReleasedLoans.from_data({**(released or {}), **self.rules})

    def _check_source(self) -> None:
        given = [name for name in ("usage_command", "usage_file", "usage_url") if getattr(self, name)]
        if len(given) > 1:
            raise BadInputError(f"{' and '.join(given)} are given.", remedy="Give one source of the usage.")
        if bool(self.usage_url) != bool(self.usage_query):
            raise BadInputError(
                f"usage_url is {self.usage_url!r} and usage_query {self.usage_query!r}.",
                remedy="Give both, or neither.",
            )
