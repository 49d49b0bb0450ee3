"""How much sharing is wanted at the moment (Lucid section 3.3, dynamic strategy)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cluster_logs.errors import BadInputError
from simulator.snapshot import Snapshot
from simulator.stages.settings import StageSettings

# Upper bound on the sum of two sharing scores (G_SS) by packing strategy (section 3.3).
SHARING_CAPACITY: Mapping[str, int | None] = {"default": 2, "apathetic": 1, "none": None}


@dataclass(frozen=True)
class StrategySettings(StageSettings):
    """`sharing`: "default" (G_SS 2), "apathetic" (G_SS 1) or "none"."""

    sharing: Literal["default", "apathetic", "none"] = "default"

    def __post_init__(self) -> None:
        """Refuse an unknown strategy."""
        super().__post_init__()
        if self.sharing not in SHARING_CAPACITY:
            raise BadInputError(
                f"sharing is {self.sharing!r}.", remedy=f"Choose one of: {', '.join(SHARING_CAPACITY)}."
            )


class SharingStrategy:
    """Chooses the GPU sharing capacity G_SS."""

    def __init__(self, settings: StrategySettings) -> None:
        self.settings = settings

    def capacity(self, snapshot: Snapshot) -> int | None:
        """Return the greatest sum of two sharing scores that may share now; None: nobody shares."""
        return SHARING_CAPACITY[self.settings.sharing]
