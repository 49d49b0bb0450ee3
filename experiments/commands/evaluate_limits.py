"""`lucid evaluate limits`: what advice on time limits would have saved, and the jobs it would have killed."""

from pathlib import Path
from typing import Annotated

import typer

from lucid_cli.options import TimeZoneOption, file_option
from lucid_cli.output import JsonFlag, print_table, progress_reporter, show


def limits(
    jobs: Annotated[Path, file_option("Jobs with their limits, starts and ends.")],
    source_format: Annotated[
        str,
        typer.Option("--format", metavar="F", help="A log's format; queue: as for waits."),
    ] = "queue",
    time_zone: TimeZoneOption = None,
    train_days: Annotated[float, typer.Option(min=0, help="The first days, which are not judged.")] = 14.0,
    risk: Annotated[
        list[float] | None,
        typer.Option(min=0.0001, max=0.5, help="Share of jobs that may be killed. Repeatable."),
    ] = None,
    write: Annotated[
        Path | None, typer.Option(metavar="PAGE", help="The page to write the table into.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Advise each job of a log on its time limit from what was known when it started."""
    from experiments.model_quality.limit_evaluation import RISKS, evaluate_limits
    from experiments.model_quality.limit_inputs import read_limit_table
    from experiments.model_quality.limit_tables import limit_tables
    from experiments.pages import publish

    with progress_reporter() as progress:
        source = read_limit_table(str(jobs), source_format, time_zone, progress)
        rows = evaluate_limits(source.table, train_days, tuple(risk or RISKS), progress=progress)
    if write is not None:
        publish(limit_tables(rows), write)
    document = {
        "rows": rows,
        "rows_in": source.rows_in,
        "rows_kept": len(source.table.jobs),
        "reasons": source.reasons,
    }
    show(document, as_json=as_json, people=lambda: print_table(rows, title=f"Advised limits of {jobs.name}"))
