"""`lucid evaluate`: each model beside its rivals, on a file, by the stated protocol."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.options import existing_file
from pipeline.cli.output import JsonFlag, print_table, progress_reporter, show

app = typer.Typer(help="Measure a model beside naive and black-box rivals.", no_args_is_help=True)


def _present(rows: list[dict[str, object]], title: str, as_json: bool) -> None:
    show({"rows": rows}, as_json=as_json, people=lambda: print_table(rows, title=title))


@app.command()
def throughput(
    source: Annotated[
        Path, typer.Option("--input", metavar="FILE", help="Throughput CSV in Helios's layout.")
    ],
    as_json: JsonFlag = False,
) -> None:
    """Forecast job submissions and GPU demand over the last four weeks of a throughput table."""
    from lucid_models.evaluation import evaluate_throughput

    with progress_reporter() as progress:
        rows = evaluate_throughput(existing_file(source, "--input"), progress=progress)
    _present(rows, f"Throughput forecasts on {source.name}", as_json)


@app.command()
def duration(
    source_format: Annotated[str, typer.Option("--format", metavar="F", help="The log's format.")],
    source: Annotated[Path, typer.Option("--input", metavar="FILE", help="The log.")],
    train_days: Annotated[int, typer.Option(min=1, help="Days to learn from; the rest is the test.")],
    as_json: JsonFlag = False,
) -> None:
    """Estimate run times of the jobs submitted after the training days."""
    from cluster_logs.ingest import read_jobs_file
    from lucid_models.evaluation import evaluate_duration

    jobs, _ = read_jobs_file(str(existing_file(source, "--input")), source_format)
    with progress_reporter() as progress:
        rows = evaluate_duration(jobs, train_days, progress=progress)
    _present(rows, f"Run-time estimates on {source.name}", as_json)


@app.command()
def packing(
    singles: Annotated[Path, typer.Option(metavar="FILE", help="CSV of solo profiles.")],
    pairs: Annotated[Path, typer.Option(metavar="FILE", help="CSV of colocated pairs.")],
    as_json: JsonFlag = False,
) -> None:
    """Classify configurations and judge which pairs may share a GPU."""
    from lucid_models.evaluation import evaluate_packing
    from profiler_jobs.profile_table import read_pair_profiles, read_solo_profiles

    rows = evaluate_packing(
        read_solo_profiles(existing_file(singles, "--singles")),
        read_pair_profiles(existing_file(pairs, "--pairs")),
    )
    _present(rows, f"Packing rules on {pairs.name}", as_json)
