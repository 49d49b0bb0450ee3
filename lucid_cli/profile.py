"""`lucid profile`: measure GPUs; the same as `python3 -m profiler_jobs`, with our models and pictures."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foundation.exit_codes import NOT_REACHED
from lucid_cli.option_groups import with_options
from lucid_cli.output import JsonFlag, print_lines, progress_reporter, say, show
from pipeline.profiling.orders import PairOrder, ranking_of

if TYPE_CHECKING:
    from profiler_jobs.commands import ProfileOptions
    from profiler_jobs.session_report import SessionReport

app = typer.Typer(help="Measure this machine's GPU: jobs alone and in pairs.", no_args_is_help=True)


def profile_options(
    workloads: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Models, configurations or patterns ('ResNet*', '*/*/64/*'), commas between; default: "
            "Lucid's Table 1; all: others too.",
        ),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            metavar="D",
            help="Number or UUID of a GPU, cpu, simulated[:SEED], or auto: the first GPU, else simulated.",
        ),
    ] = "auto",
    out: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The measurement table; default profiles/DEVICE.parquet."),
    ] = None,
    window_s: Annotated[
        float | None, typer.Option(metavar="S", help="Length of a window; default 30.")
    ] = None,
    repeats: Annotated[int | None, typer.Option(metavar="N", help="Rounds of windows; default 3.")] = None,
    warmup_s: Annotated[
        float | None, typer.Option(metavar="S", help="Training before the first; default 10.")
    ] = None,
    budget_s: Annotated[
        float | None, typer.Option(metavar="S", help="Begin no run that would not end within this time.")
    ] = None,
) -> "ProfileOptions":
    """Group of options: what is measured, on which device, how long."""
    from profiler_jobs.commands import ProfileOptions

    return ProfileOptions(workloads, device, out, window_s, repeats, warmup_s, budget_s)


PlanOption = Annotated[
    str | None, typer.Option("--plan", metavar="FILE", help="Measure what this plan names, in its order.")
]
MostOption = Annotated[
    int | None, typer.Option("--most-pairs", metavar="N", help="Measure at most N pairs in all.")
]
BatchOption = Annotated[
    int, typer.Option("--batch", min=1, metavar="N", help="Pairs between two rankings of what is left.")
]
AtOnceOption = Annotated[
    int | None,
    typer.Option(
        "--at-once",
        metavar="N",
        help="Hold up to N configurations on the device: each starts once, their pairs share windows.",
    ),
]
AgainFlag = Annotated[bool, typer.Option("--again-rejected", help="Measure again what was refused before.")]
OrderOption = Annotated[
    PairOrder, typer.Option("--order", help="Which pairs come first; what each is worth: docs/profiling.md.")
]


@app.command()
@with_options(profile_options)
def solo(
    options: "ProfileOptions",
    plan: PlanOption = None,
    at_once: AtOnceOption = None,
    again_rejected: AgainFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Measure configurations alone; the same command again goes on."""
    _measure(
        replace(options, at_once=at_once, again_rejected=again_rejected),
        plan,
        PairOrder.SPACE_FILLING,
        as_json,
        with_pairs=False,
    )


@app.command()
@with_options(profile_options)
def pairs(
    options: "ProfileOptions",
    plan: PlanOption = None,
    order: OrderOption = PairOrder.SPACE_FILLING,
    most_pairs: MostOption = None,
    batch: BatchOption = 20,
    at_once: AtOnceOption = None,
    again_rejected: AgainFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Measure pairs, the most telling first, and configurations alone where that is missing."""
    options = replace(
        options, most_pairs=most_pairs, batch=batch, at_once=at_once, again_rejected=again_rejected
    )
    _measure(options, plan, order, as_json, with_pairs=True)


@app.command()
@with_options(profile_options)
def plan(
    options: "ProfileOptions",
    order: OrderOption = PairOrder.SPACE_FILLING,
    most_pairs: MostOption = None,
    batch: BatchOption = 20,
    solo_only: Annotated[bool, typer.Option("--solo", help="Configurations alone only.")] = False,
    write: Annotated[
        str | None, typer.Option("--write", metavar="FILE", help="Write the plan as JSON, for --plan.")
    ] = None,
    first: Annotated[int, typer.Option(min=0, metavar="N", help="Tasks to print.")] = 10,
    as_json: JsonFlag = False,
) -> None:
    """Say what is left to measure, in which order, how long it takes, and what a budget covers."""
    from profiler_jobs.commands import make_plan, plan_lines

    options = replace(options, most_pairs=most_pairs, batch=batch)
    report = make_plan(options, with_pairs=not solo_only, write=write, ranking=ranking_of(order), say=say)
    show(report.document(), as_json=as_json, people=lambda: print_lines(plan_lines(report, first)))


@app.command()
def summary(
    table: Annotated[Path, typer.Argument(help="The measurement table.")],
    write: Annotated[
        str | None,
        typer.Option("--write", metavar="DIR", help="Write the profile tables as CSV, and pictures of them."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Say what a measurement table comes to: profiles, pairs, what is rejected and why."""
    from profiler_jobs.commands import summary_document, summary_lines, write_summary

    profiles, files = write_summary(str(table), write)
    if write is not None:
        from pipeline.profiling.pictures import draw_profiles

        files = (*files, *draw_profiles(profiles, Path(write)))
    lines = [*summary_lines(profiles), *(f"Written: {file}" for file in files)]
    show(summary_document(profiles, files), as_json=as_json, people=lambda: print_lines(lines))


@app.command()
def compare(
    first: Annotated[Path, typer.Argument(help="A measurement table.")],
    second: Annotated[
        Path | None, typer.Argument(help="Another; without: the pairs of equals of the first.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Say how well two measurements agree; exit code 3 when they do not."""
    from profiler_jobs.commands import compare_tables
    from profiler_jobs.comparison import comparison_lines

    comparison = compare_tables(str(first), None if second is None else str(second))
    show(
        comparison.document(),
        as_json=as_json,
        people=lambda: print_lines(comparison_lines(comparison)),
    )
    if not comparison.agrees:
        raise typer.Exit(NOT_REACHED)


def _measure(
    options: "ProfileOptions", plan: str | None, order: PairOrder, as_json: bool, *, with_pairs: bool
) -> None:
    from profiler_jobs.commands import follow_plan, measure_workloads
    from profiler_jobs.session import stopped_by_signals
    from profiler_jobs.session_report import report_lines

    again = f"lucid {shlex.join(sys.argv[1:])}"
    report: SessionReport
    with stopped_by_signals(), progress_reporter() as progress:
        try:
            if plan is not None:
                report = follow_plan(options, plan, progress=progress, say=say)
            else:
                report = measure_workloads(
                    options, with_pairs=with_pairs, ranking=ranking_of(order), progress=progress, say=say
                )
        except KeyboardInterrupt:
            say(f"What was measured is in the table; go on with: {again}")
            raise
    show(
        {**report.document(), "command": again},
        as_json=as_json,
        people=lambda: print_lines(report_lines(report, again)),
    )
