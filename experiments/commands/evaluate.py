"""`lucid evaluate`: each model beside its rivals, on a file or a lake, by the stated protocol."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.commands.evaluate_limits import limits
from foundation.errors import BadInputError
from lucid_cli.options import (
    TimeZoneOption,
    file_option,
    text_of,
)
from lucid_cli.output import JsonFlag, print_lines, print_table, progress_reporter, show
from parts.lending.options import FullLoadOption, RatesColumnOption, ServersOption, ZerosAreGapsOption

app = typer.Typer(help="Measure a model beside naive and black-box rivals.", no_args_is_help=True)

ClusterOption = Annotated[
    str | None, typer.Option("--cluster", metavar="NAME", help="Of a lake; default: its only one.")
]
OutOption = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Where to draw pictures.")]
RivalsFlag = Annotated[
    bool, typer.Option("--rivals/--no-rivals", help="Also what takes most of the time to train.")
]
FormatOption = Annotated[str, typer.Option("--format", metavar="F", help="The format of --input.")]
REFERENCE = "LUCID_REFERENCE_DATA"

_THROUGHPUT_COLUMNS = ("series", "lead", "model", "mae", "against_ebm", "fit_s", "predict_ms")
_DURATION_COLUMNS = (
    "model",
    "kendall_tau",
    "mae_log10",
    "against_ebm",
    "r2_mean_head",
    "coverage_p90",
    "negative_share",
    "fit_s",
)
_PACKING_COLUMNS = (
    "model",
    "protocol",
    "accuracy",
    "severe_errors",
    "precision_mean",
    "recall_mean",
    "precision_min",
    "recall_min",
)
_UTILISATION_COLUMNS = (
    "target",
    "model",
    "mae",
    "mape",
    "spearman",
    "careful_mae",
    "under_models",
    "within_models",
)
_INFERENCE_COLUMNS = (
    "model",
    "member",
    "mse",
    "against_last_value",
    "mae",
    "p95_under",
    "coverage_p90",
    "bins",
)

_WAIT_COLUMNS = (
    "model",
    "mse_log10",
    "within_x2",
    "within_x3",
    "coverage_p50",
    "coverage_p90",
    "mae_s",
    "rows",
)


@app.command()
def throughput(
    source: Annotated[str, typer.Option("--input", metavar="FILE", help="A table, a log or a lake.")],
    source_format: FormatOption = "helios-throughput",
    cluster: ClusterOption = None,
    time_zone: TimeZoneOption = None,
    published: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Lucid's predictions; default: beside the input, if they fit."),
    ] = None,
    test_days: Annotated[int, typer.Option(min=1, help="The last days, which are forecast.")] = 28,
    lead: Annotated[
        list[str] | None, typer.Option(metavar="gN", help="Newest known bin: N before. Repeatable.")
    ] = None,
    rivals: RivalsFlag = True,
    out: OutOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Forecast job submissions and GPU demand over the last four weeks of a throughput table."""
    from experiments.model_quality.inputs import published_for, read_throughput
    from experiments.model_quality.throughput_comparison import compare_throughput
    from experiments.model_quality.throughput_rivals import throughput_rivals
    from lucid_models.evaluation.throughput import LEADS

    with progress_reporter() as progress:
        table = read_throughput(
            source, source_format, cluster=cluster, time_zone=time_zone, progress=progress
        )
        found = compare_throughput(
            table,
            test_days=test_days,
            leads=tuple(lead or LEADS),
            rivals=throughput_rivals(
                trained=rivals,
                published=published_for(table, test_days, source=source, given=published),
            ),
            progress=progress,
        )
    drawn: list[Path] = []
    if out is not None:
        from experiments.model_quality.plots import draw_throughput

        drawn = draw_throughput(found, out)
    _present({"rows": found.rows}, f"Throughput forecasts on {source}", _THROUGHPUT_COLUMNS, drawn, as_json)


@app.command()
def duration(
    source_format: FormatOption,
    source: Annotated[str, typer.Option("--input", metavar="FILE", help="A log or a lake.")],
    train_days: Annotated[float, typer.Option(min=0.1, help="Days to learn from; the rest is the test.")],
    cluster: ClusterOption = None,
    time_zone: TimeZoneOption = None,
    rivals: RivalsFlag = True,
    out: OutOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Estimate run times of the jobs submitted after the training days."""
    from experiments.model_quality.duration_comparison import compare_durations
    from experiments.model_quality.duration_rivals import add_duration_rivals
    from experiments.model_quality.inputs import read_jobs

    with progress_reporter() as progress:
        jobs = read_jobs(source, source_format, cluster=cluster, time_zone=time_zone, progress=progress)
        found = compare_durations(
            jobs, train_days, rivals=add_duration_rivals if rivals else None, progress=progress
        )
    drawn: list[Path] = []
    if out is not None:
        from experiments.model_quality.plots import draw_durations

        drawn = draw_durations(found, out)
    document = {"rows": found.rows, "by_group": found.by_group, "train_jobs": found.train_jobs}
    document["levels"] = found.levels
    document["pairs"] = found.pairs
    document["black_box_lead"] = found.black_box_lead
    document["coverage"] = found.coverage
    _present(document, f"Run-time estimates on {source}", _DURATION_COLUMNS, drawn, as_json)


@app.command()
def packing(
    singles: Annotated[Path | None, file_option("CSV of solo profiles.")] = None,
    pairs: Annotated[Path | None, file_option("CSV of colocated pairs.")] = None,
    seed: Annotated[int, typer.Option(help="Of the simulated GPU, which is measured without files.")] = 0,
    rivals: RivalsFlag = True,
    as_json: JsonFlag = False,
) -> None:
    """Classify configurations and judge which pairs may share a GPU; without files, on the simulated GPU."""
    from experiments.model_quality.packing_rivals import CONTENDERS
    from lucid_models.evaluation.packing import evaluate_packing
    from lucid_models.evaluation.packing_contenders import NAIVE, OURS
    from pipeline.profiling.profile_store import read_profiles_or_measure

    profiles = read_profiles_or_measure(
        text_of(singles),
        text_of(pairs),
        seed=seed,
    )
    with progress_reporter() as progress:
        rows = evaluate_packing(
            profiles.solo,
            profiles.pairs,
            models=None if rivals else (OURS, *NAIVE),
            contenders=CONTENDERS,
            progress=progress,
        )
    where = "the simulated GPU" if pairs is None else pairs.name
    _present({"rows": rows}, f"Packing rules on {where}", _PACKING_COLUMNS, [], as_json)


@app.command()
def utilisation(
    singles: Annotated[Path | None, file_option("CSV of solo profiles.")] = None,
    seed: Annotated[int, typer.Option(help="Of the simulated GPU, which is measured without a file.")] = 0,
    rivals: RivalsFlag = True,
    as_json: JsonFlag = False,
) -> None:
    """Predict what jobs ask of a GPU from their graphs, each model by what the others teach."""
    from experiments.model_quality.utilisation import solo_profiles
    from experiments.model_quality.utilisation_rivals import NAIVE, all_contenders
    from parts.horus.evaluation import OURS, evaluate_utilisation

    solo, where = solo_profiles(singles, seed)
    with progress_reporter() as progress:
        rows = evaluate_utilisation(
            solo,
            models=None if rivals else (OURS, *NAIVE),
            contenders=all_contenders,
            progress=progress,
        )
    _present({"rows": rows}, f"Predictions from graphs on {where}", _UTILISATION_COLUMNS, [], as_json)


@app.command()
def inference(
    source: Annotated[str, typer.Option("--input", metavar="FILE", help="A file of load, or a lake.")],
    source_format: Annotated[
        str, typer.Option("--format", metavar="F", help="inference-load, node-sequence (a stand-in) or lake.")
    ] = "inference-load",
    cluster: ClusterOption = None,
    test_days: Annotated[float, typer.Option(min=0.01, help="The last days, which are forecast.")] = 4.0,
    bin_s: Annotated[
        int | None, typer.Option(min=1, help="Seconds of a bin; default: the rows' usual distance.")
    ] = None,
    servers: ServersOption = None,
    full_load: FullLoadOption = None,
    zeros_are_gaps: ZerosAreGapsOption = False,
    rates_column: RatesColumnOption = "requests_per_s",
    rivals: RivalsFlag = True,
    as_json: JsonFlag = False,
) -> None:
    """Forecast the next bin of inference usage over the last days, from what was known before each."""
    from experiments.model_quality.inference_inputs import last_days, read_load
    from experiments.model_quality.inference_rivals import inference_rivals
    from parts.lending.load.table import LoadReading
    from parts.lending.usage.evaluation import evaluate_inference_load

    load = LoadReading(servers, full_load, zeros_are_gaps, rates_column)
    series = read_load(source, source_format, load, cluster=cluster, bin_s=bin_s)
    rows = evaluate_inference_load(
        series, last_days(series, test_days), rivals=inference_rivals(trained=rivals)
    )
    show(
        {"rows": rows},
        as_json=as_json,
        people=lambda: print_table(rows, title=f"Next bin of {source}", columns=_INFERENCE_COLUMNS),
    )


@app.command()
def waits(
    jobs: Annotated[Path, file_option("CSV of jobs with their starts and ends.")],
    snapshots: Annotated[Path, file_option("CSV of all that was pending, by moment.")],
    train_snapshots: Annotated[
        int, typer.Option(min=1, help="The first moments, which are learned from; the rest is the test.")
    ] = 27,
    slurm: Annotated[Path | None, file_option("CSV of Slurm's own estimates and true starts.")] = None,
    as_job_table: Annotated[
        bool,
        typer.Option("--as-job-table", help="Of submissions, starts and ends alone, as a release learns."),
    ] = False,
    hold_out_days: Annotated[
        int | None,
        typer.Option(
            min=1, help="Also the model of a release: learned once, until so many days before the end."
        ),
    ] = None,
    as_of: Annotated[
        list[str] | None,
        typer.Option(metavar="TIME", help="That end (UTC); default: the last submission. Repeatable."),
    ] = None,
    rivals: RivalsFlag = True,
    write: Annotated[
        Path | None, typer.Option(metavar="PAGE", help="The page to write the tables into.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Forecast when waiting jobs start over the last snapshots of a queue, each from what was known then."""
    from cluster_logs.queue_log_files import read_queue_log
    from experiments.model_quality.release_waits import release_waits
    from experiments.model_quality.wait_rivals import as_a_job_table, slurm_row, wait_rivals
    from parts.waits.model.evaluation import evaluate_waits
    from parts.waits.model.wait_table import WaitTable
    from pipeline.training.windows import read_as_of

    if as_of and hold_out_days is None:
        raise BadInputError("--as-of was given without --hold-out-days.", remedy="Give both, or neither.")
    log = read_queue_log(str(jobs), str(snapshots))
    if as_job_table:
        log = as_a_job_table(log)
    with progress_reporter() as progress:
        measured = evaluate_waits(
            WaitTable.of(log),
            train_snapshots,
            rivals=wait_rivals(trained=rivals),
            names=log.partition_name,
            progress=progress,
        )
        of_release = [
            row
            for end in map(read_as_of, as_of or [""])
            if hold_out_days is not None
            for row in release_waits((jobs, snapshots), hold_out_days, end, progress=progress)
        ]
    rows = [*measured.rows, *([] if slurm is None else [slurm_row(slurm)])]
    document = {
        "rows": rows,
        "groups": measured.groups,
        "release": [asdict(row) for row in of_release],
        "rows_in": log.rows_in,
        "rows_kept": log.rows_kept,
        "reasons": dict(log.reasons),
    }

    if write is not None:
        from experiments.model_quality.wait_tables import release_table, wait_tables
        from experiments.pages import publish

        tables = wait_tables(rows, measured.groups)
        if as_job_table:
            tables = {"waits told by a job table": tables["waits by model"]}
        if of_release:
            tables = {**tables, "waits of a release": release_table(of_release)}
        publish(tables, write)

    def people() -> None:
        print_table(rows, title=f"Waits of {snapshots.name}", columns=_WAIT_COLUMNS)
        print_table(
            measured.groups, title="Of ours, by group", columns=("group", *_WAIT_COLUMNS[1:-2], "rows")
        )
        if of_release:
            print_table(
                [asdict(row) for row in of_release],
                title=f"Of a release, {hold_out_days} days that it did not see",
            )

    show(document, as_json=as_json, people=people)


@app.command(name="all")
def everything(
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", envvar=REFERENCE, help="The public reference data."),
    ] = None,
    write: Annotated[
        Path | None, typer.Option(metavar="PAGE", help="The page to write the tables into.")
    ] = None,
    out: OutOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure all three models on the public data and on a synthetic log: docs/model_quality.md."""
    from experiments.model_quality.page import measure
    from experiments.model_quality.tables import tables
    from experiments.pages import publish

    if data is None:
        raise BadInputError(
            "The public reference data is not named.",
            remedy=f"Give --data DIR or set {REFERENCE}; the other commands take any log.",
        )
    with progress_reporter() as progress:
        quality = measure(data, out_dir=out, progress=progress)
    if write is not None:
        publish(tables(quality), write)
    if as_json:
        show(quality.document(), as_json=True, people=lambda: None)
    elif write is None:
        publish(tables(quality), None)


@app.command()
def sampling(
    singles: Annotated[Path, file_option("CSV of solo profiles.")],
    pairs: Annotated[Path, file_option("CSV of colocated pairs, all of them.")],
    write: Annotated[
        Path | None, typer.Option(metavar="PAGE", help="The page to write the tables and curves into.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Replay orders of measuring pairs on a table of measured ones: which teaches the packing model most."""
    from experiments.pages import publish
    from experiments.profiling.sampling_page import sampling_tables

    with progress_reporter() as progress:
        rows, tables = sampling_tables(singles, pairs, write, progress)
    if write is not None:
        publish(tables, write)
    if as_json or write is None:
        show({"rows": rows}, as_json=as_json, people=lambda: print_table(rows))


def _present(
    document: dict[str, Any],
    title: str,
    columns: Sequence[str],
    drawn: Sequence[Path],
    as_json: bool,
) -> None:
    """Print the document, or a table of its rows and where the pictures are."""
    from experiments.model_quality.verdicts import verdict

    if drawn:
        document = {**document, "pictures": [os.fspath(path) for path in drawn]}
    rows = [row | {"against_ebm": verdict(row)} for row in document["rows"]]

    def people() -> None:
        print_table(rows, title=title, columns=columns)
        if document.get("levels"):
            print_table(document["levels"], title="What tells run times apart, found in the training days")
        if document.get("pairs"):
            print_lines([document["pairs"]])
        print_lines(document.get("black_box_lead", []))
        if document.get("coverage"):
            by_week = "Jobs that ended within P50 and P90 by week, calibrated and before; width: P90 / P50"
            print_table(document["coverage"], title=by_week)
        if drawn:
            print_lines([f"Drawn: {path}" for path in drawn])

    show(document, as_json=as_json, people=people)


def register(program: typer.Typer) -> None:
    """Add `lucid evaluate`."""
    app.command()(limits)
    program.add_typer(app, name="evaluate")
