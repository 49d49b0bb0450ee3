"""Options of a release with a wait model, which says when jobs start."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from lucid_cli.part_options import ModelVersionOption, ReleaseOptions


@dataclass(frozen=True)
class WaitsInRelease(ReleaseOptions):
    """A release with a wait model."""

    field: ClassVar[str] = "waits"
    kind: ClassVar[str] = "waits"
    example: ClassVar[str] = "least_jobs=30"

    wait_model: ModelVersionOption = None
    waits: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A wait model answers when jobs start: a setting of answers, such as least_jobs=30; may be "
            "repeated.",
        ),
    ] = None

    def version(self) -> int | None:
        """Return the version of the wait model."""
        return self.wait_model
