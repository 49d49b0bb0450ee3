"""`lucid train nodes`: the node demand model."""

from typing import Annotated

import typer

from lucid_cli.option_groups import with_options
from lucid_cli.train import LakeTraining, UtcOffsetOption


def register(app: typer.Typer) -> None:
    """Add the command to the group."""
    app.command()(nodes)


@with_options(LakeTraining)
def nodes(
    training: LakeTraining,
    near_bins: Annotated[
        int, typer.Option("--near-bins", min=1, max=1_008, help="Bins of ten minutes that it looks ahead.")
    ] = 30,
    utc_offset_hours: UtcOffsetOption = 0.0,
    holiday: Annotated[
        list[str] | None,
        typer.Option("--holiday", metavar="DATE", help="A local day that is no working day; repeatable."),
    ] = None,
) -> None:
    """Train the Node Demand Model on a cluster's counts of nodes (the table node_states)."""
    training.train(
        "node_demand",
        near_bins=near_bins,
        utc_offset_hours=utc_offset_hours,
        holidays=tuple(holiday or ()),
    )
