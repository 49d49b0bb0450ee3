"""`lucid live waits`: when waiting jobs start by the learned wait model, where no forecast can be played."""

from pathlib import Path
from typing import Annotated

import typer

from foundation.human_times import human_duration
from foundation.site import Site
from lucid_cli.options import ClusterOption, TrackingOption, file_option, tracking_or_default
from lucid_cli.output import JsonFlag, print_lines, print_table, show, to_jsonable


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(waits)


def waits(
    jobs: Annotated[Path, file_option("CSV of jobs that started lately.")],
    snapshots: Annotated[Path, file_option("CSV of all that is pending; its newest moment is answered.")],
    cluster: ClusterOption,
    first: Annotated[int, typer.Option(min=1, metavar="N", help="So many jobs (people's form).")] = 50,
    tracking_uri: TrackingOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Say how long pending jobs go on waiting, by the wait model that the cluster's queue taught."""
    from cluster_logs.queue_log_files import read_queue_log
    from parts.waits.model.answers import waits_now
    from pipeline.training.explanations import load_registered_model

    log = read_queue_log(str(jobs), str(snapshots))
    model = load_registered_model(
        Site(registry=tracking_or_default(tracking_uri), cluster=cluster), kind="waits"
    )
    answers = waits_now(model.parts[""].scorer, log)
    said_by = f"By the learned wait model {model.name} version {model.version}, not by playing forward."
    document = {
        "model": model.name,
        "version": model.version,
        "said_by": said_by,
        "moment_s": float(log.moments_s[-1]),
        "waits": to_jsonable(answers),
        "rows_in": log.rows_in,
        "rows_kept": log.rows_kept,
        "reasons": dict(log.reasons),
    }

    def people() -> None:
        print_lines([said_by])
        rows = [
            {
                "job": answer.job_id,
                "partition": answer.partition,
                "has waited": human_duration(answer.waited_s),
                "half of such jobs start within": human_duration(answer.p50_s),
                "nine in ten within": human_duration(answer.p90_s),
            }
            for answer in answers[:first]
        ]
        print_table(rows, title=f"{len(answers):,} jobs wait; the first {len(rows):,} by P50")

    show(document, as_json=as_json, people=people)
