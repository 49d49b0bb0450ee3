"""`lucid train inference`: the inference load model."""

import typer

from lucid_cli.option_groups import with_options
from lucid_cli.train import LakeTraining, UtcOffsetOption


def register(app: typer.Typer) -> None:
    """Add the command to the group."""
    app.command()(inference)


@with_options(LakeTraining)
def inference(
    training: LakeTraining,
    utc_offset_hours: UtcOffsetOption = 0.0,
) -> None:
    """Train the Inference Load Model on the load of a cluster's inference servers."""
    training.train("inference_load", utc_offset_hours=utc_offset_hours)
