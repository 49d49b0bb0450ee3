"""What an operator sets of servers on loan."""

from dataclasses import dataclass
from typing import Annotated

from foundation.checked_settings import Between, CheckedSettings, OneOf
from foundation.errors import BadInputError

LEND = ("capacity", "demand")
RECLAIM = ("exact", "greedy", "reference", "scf", "random", "highest")
MOST_SERVERS = 10_000_000  # more than any cluster has
Seconds = Annotated[float, Between(0)]


@dataclass(frozen=True)
class LoanSettings(CheckedSettings):
    """How servers are lent and taken back (Lyra, sections 3 and 4).

    - `headroom`: share of the inference servers that is never lent.
    - `period_s`: seconds between two decisions.
    - `lend`: "capacity" lends every server that inference does not need; "demand" no more than waiting jobs
      and flexible workers can use.
    - `hysteresis_servers`: left with inference when lending, so that a rise by so many servers takes none
      back.
    - `hold_s`: after inference took servers back nothing is lent for so long.
    - `reclaim`: the rule that chooses the servers to give back (`choose_reclaim`); "reference" is the
      paper's.
    - `exact_limit_s`: a live decision waits for the solver so long, and takes the greedy choice then; a
      replay waits as long as it takes.
    - `seed`: of the rule "random".
    """

    noun = "setting of loans"

    headroom: Annotated[float, Between(0, 1)] = 0.02
    period_s: Seconds = 300.0
    lend: Annotated[str, OneOf("way to lend", LEND)] = "capacity"
    hysteresis_servers: Annotated[int, Between(0, MOST_SERVERS)] = 0
    hold_s: Seconds = 0.0
    reclaim: Annotated[str, OneOf("rule of reclaiming", RECLAIM)] = "exact"
    exact_limit_s: Seconds = 0.1
    seed: Annotated[int, Between(0, MOST_SERVERS)] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.period_s:
            raise BadInputError("period_s is 0.", remedy="Use more than 0 seconds.")
