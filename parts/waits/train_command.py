"""`lucid train waits`: the wait model."""

from pathlib import Path
from typing import Annotated

import typer

from foundation.errors import BadInputError
from lucid_cli.option_groups import with_options
from lucid_cli.options import file_option, tracking_or_default
from lucid_cli.output import progress_reporter
from lucid_cli.train import LakeTraining, present_training


def register(app: typer.Typer) -> None:
    """Add the command to the group."""
    app.command()(waits)


@with_options(LakeTraining)
def waits(
    training: LakeTraining,
    jobs: Annotated[Path | None, file_option("CSV of jobs with their starts and ends.")] = None,
    snapshots: Annotated[Path | None, file_option("CSV of all that was pending, by moment.")] = None,
) -> None:
    """Train the Wait Model on the queue that a cluster's job table tells of, or on snapshots of it."""
    if jobs is None and snapshots is None:
        training.train("waits")
        return
    if jobs is None or snapshots is None:
        raise BadInputError(
            "Of --jobs and --snapshots one is missing.",
            remedy="Give both files, or neither to learn from the lake.",
        )
    from cluster_logs.queue_log_files import read_queue_log
    from parts.waits.model.training import train_waits

    log = read_queue_log(str(jobs), str(snapshots))
    with progress_reporter() as progress:
        report = train_waits(
            log=log,
            source=f"{jobs.name}, {snapshots.name}",
            cluster=training.cluster,
            tracking_uri=tracking_or_default(training.tracking_uri),
            progress=progress,
        )
    present_training(report, training.as_json)
