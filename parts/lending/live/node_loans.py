"""The seam between loans and a cluster: two partitions, the nodes in each, and what runs on them.

A node on loan is in the borrower's partition and not in the lender's. Everything that is asked for may be
asked again: a node that is in a partition already joins it by staying.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Protocol


class Side(StrEnum):
    """One of the two partitions."""

    LENDER = "lender"
    BORROWER = "borrower"


@dataclass(frozen=True, slots=True)
class LoanNode:
    """A node of either partition, or of neither that is on its way between them.

    `sides`: the partitions that hold it. `counts`: it is neither down nor drained. `idle`: nothing runs there
    and nothing is kept for it: no reservation, no planned start, no site that excludes it. `gpus_of` are the
    GPUs there of the borrower's jobs that may be requeued; `fixed` are all other jobs there.
    """

    name: str
    gpus: int
    sides: frozenset[Side]
    counts: bool = True
    idle: bool = False
    busy: bool = False
    gpus_of: Mapping[str, int] = field(default_factory=dict, hash=False)
    fixed: tuple[str, ...] = ()

    @property
    def on_loan(self) -> bool:
        """Whether it is the borrower's alone."""
        return self.sides == {Side.BORROWER}


@dataclass(frozen=True)
class LoanReading:
    """All such nodes at one moment (`at_s`, Unix time by the cluster's clock).

    `wanted_gpus` are what jobs ask for that wait for the borrower's partition.
    """

    at_s: float
    nodes: tuple[LoanNode, ...]
    wanted_gpus: int = 0

    @cached_property
    def by_name(self) -> dict[str, LoanNode]:
        """The nodes by their names."""
        return {node.name: node for node in self.nodes}

    def of(self, names: Collection[str]) -> list[LoanNode]:
        """Return the nodes of these names that there are."""
        return [self.by_name[name] for name in names if name in self.by_name]


@dataclass(frozen=True, slots=True)
class LoanRefusal:
    """What the cluster refused, in its own words; `what` names a job or a partition."""

    what: str
    why: str


class NodeLoans(Protocol):
    """Two partitions of a cluster. Every method raises ServiceUnavailableError when it does not answer."""

    def read(self, also: Collection[str] = ()) -> LoanReading:
        """Return the nodes of both partitions, and of `also` those that there are, as they are now."""

    def join(self, side: Side, nodes: Sequence[str]) -> list[LoanRefusal]:
        """Add nodes to a partition."""

    def leave(self, side: Side, nodes: Sequence[str]) -> list[LoanRefusal]:
        """Take nodes out of a partition; what runs there goes on."""

    def requeue(self, job_ids: Sequence[str]) -> list[LoanRefusal]:
        """Stop runs, and let their jobs queue again from their beginning."""
