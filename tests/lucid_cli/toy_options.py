"""Options that a part of a test adds to `lucid simulate`."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from lucid_cli.part_options import ReplayOptions


@dataclass(frozen=True)
class ToyInReplay(ReplayOptions):
    """How many toys are beside the policy."""

    toys: Annotated[int, typer.Option("--toys", help="Toys beside the policy.")] = 0

    def companion(self, source_format: str, seed: int) -> Any:
        """Say so, and end."""
        if self.toys:
            raise SystemExit(f"{self.toys} toys of {source_format}")
        return None
