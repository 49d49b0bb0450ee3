"""Servers beside the cluster's own, as a simulation and its policies know them."""

from abc import ABC, abstractmethod


class Lender(ABC):
    """Servers in a pool of their own, which may be lent to the cluster's virtual clusters.

    `name` is the pool's, `servers` how many there are. On loan, `loaned_workers_per_worker` workers do the
    work of one, and a job on both kinds of servers runs at `mixed_speed` (above 0, up to 1).
    """

    name: str
    servers: int
    loaned_workers_per_worker: int
    mixed_speed: float

    @abstractmethod
    def servers_needed(self, now_s: float) -> int:
        """Return how many of them are taken to be needed where they belong."""
