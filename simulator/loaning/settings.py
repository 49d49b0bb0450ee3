"""What an operator sets of servers on loan."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import isfinite
from typing import Any

from foundation.errors import BadInputError, UnknownNameError

LEND = ("capacity", "demand")
RECLAIM = ("exact", "greedy", "reference", "scf", "random", "highest")
MOST_SERVERS = 10_000_000  # more than any cluster has


@dataclass(frozen=True)
class LoanSettings:
    """How servers are lent and taken back (Lyra, sections 3 and 4).

    `lend`: "capacity" lends every server that inference does not need; "demand" no more than training jobs
    can use. `reclaim` names the rule that chooses the servers to give back (`choose_reclaim`).
    """

    headroom: float = 0.02  # share of the inference servers that is never lent
    period_s: float = 300.0  # between two decisions
    lend: str = "capacity"
    hysteresis_servers: int = 0  # left with inference when lending, so that small rises reclaim nothing
    hold_s: float = 0.0  # after a reclaim nothing is lent for so long
    reclaim: str = "exact"
    exact_limit_s: float = 0.1  # a live decision waits for the solver so long; a replay as long as it takes
    seed: int = 0  # of the rule "random"

    def __post_init__(self) -> None:
        if self.lend not in LEND:
            raise UnknownNameError("way to lend", self.lend, LEND)
        if self.reclaim not in RECLAIM:
            raise UnknownNameError("rule of reclaiming", self.reclaim, RECLAIM)
        for name in ("headroom", "period_s", "hold_s", "exact_limit_s"):
            value = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not isfinite(value)
                or value < 0
            ):
                raise BadInputError(f"{name} is {value!r}.", remedy="Use a finite number, 0 or more.")
        if self.headroom > 1:
            raise BadInputError(f"headroom is {self.headroom!r}.", remedy="Use a share from 0 to 1.")
        if not self.period_s:
            raise BadInputError("period_s is 0.", remedy="Use more than 0 seconds.")
        for name in ("hysteresis_servers", "seed"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_SERVERS:
                raise BadInputError(
                    f"{name} is {value!r}.", remedy=f"Use a whole number from 0 to {MOST_SERVERS:,}."
                )

    def to_data(self) -> dict[str, Any]:
        """Return the settings as a flat, JSON-able table."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "LoanSettings":
        """Return the settings of such a table; what it lacks stays as it is by default.

        Raises UnknownNameError for a name that is no setting, BadInputError for a value that cannot be used.
        """
        names = [field.name for field in fields(cls)]
        for name in data:
            if name not in names:
                raise UnknownNameError("setting of loans", name, names)
        return cls(**data)


PAPER = LoanSettings(reclaim="reference")
