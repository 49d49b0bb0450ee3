"""Measure this machine's GPU with a checkout, PyTorch and little else: `python3 -m profiler_jobs pairs`.

The same as `lucid profile`, for machines on which the rest of the product is not installed. The same command
again goes on after the last task that is in the table.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Sequence

from foundation.errors import LucidError
from foundation.exit_codes import ERROR, INTERRUPTED, NOT_REACHED, CommandLine
from foundation.progress import reporting
from foundation.screen_text import on_screen
from profiler_jobs.commands import (
    ProfileOptions,
    compare_tables,
    follow_plan,
    make_plan,
    measure_workloads,
    plan_lines,
    summary_document,
    summary_lines,
    write_summary,
)
from profiler_jobs.comparison import comparison_lines
from profiler_jobs.session import stopped_by_signals
from profiler_jobs.session_report import report_lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; an error is one line on standard error and exit code 1."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser().parse_args(words)
    options.again = f"python3 -m profiler_jobs {shlex.join(words)}"
    try:
        with stopped_by_signals():
            run: Callable[[argparse.Namespace], int] = options.run
            return run(options)
    except LucidError as error:
        _say(f"Error: {error}")
        return ERROR
    except KeyboardInterrupt:
        _say(f"Interrupted. What was measured is in the table; go on with: {options.again}")
        return INTERRUPTED


def _measure(options: argparse.Namespace) -> int:
    with reporting(sys.stderr) as progress:
        if options.plan:
            report = follow_plan(_asked(options), options.plan, progress=progress, say=_say)
        else:
            report = measure_workloads(
                _asked(options), with_pairs=options.command == "pairs", progress=progress, say=_say
            )
    _print(options, {**report.document(), "command": options.again}, report_lines(report, options.again))
    return 0


def _plan(options: argparse.Namespace) -> int:
    report = make_plan(_asked(options), with_pairs=not options.solo, write=options.write, say=_say)
    _print(options, report.document(), plan_lines(report, options.first))
    return 0


def _summary(options: argparse.Namespace) -> int:
    profiles, files = write_summary(options.table, options.write)
    lines = [*summary_lines(profiles), *(f"Written: {file}" for file in files)]
    _print(options, summary_document(profiles, files), lines)
    return 0


def _compare(options: argparse.Namespace) -> int:
    comparison = compare_tables(options.first, options.second)
    _print(options, comparison.document(), comparison_lines(comparison))
    return 0 if comparison.agrees else NOT_REACHED


def _parser() -> argparse.ArgumentParser:
    parser = CommandLine(prog="python3 -m profiler_jobs", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    json_flag = CommandLine(add_help=False)
    json_flag.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    shared = CommandLine(add_help=False, parents=[json_flag])
    shared.add_argument(
        "--workloads",
        metavar="LIST",
        help="models, configurations or patterns of them ('ResNet*', '*/*/64/*'), commas between; "
        "default: Lucid's Table 1; 'all' takes in the others",
    )
    shared.add_argument(
        "--device",
        default="auto",
        metavar="D",
        help="index or UUID of a GPU, cpu, simulated[:SEED], or auto: the first GPU, else the simulated one",
    )
    shared.add_argument(
        "--out", metavar="FILE", help="the measurement table; default: profiles/DEVICE.parquet"
    )
    shared.add_argument("--window-s", type=float, metavar="S", help="length of a window; default 30")
    shared.add_argument("--repeats", type=int, metavar="N", help="rounds of windows; default 3")
    shared.add_argument("--warmup-s", type=float, metavar="S", help="training before the first; default 10")
    shared.add_argument(
        "--budget-s", type=float, metavar="S", help="begin no run that would not end within this time"
    )
    for name, what in (
        ("solo", "measure configurations alone"),
        ("pairs", "measure pairs, and configurations alone where that is missing"),
    ):
        command = commands.add_parser(name, parents=[shared], help=what, description=what)
        command.add_argument("--plan", metavar="FILE", help="measure what this plan names, in its order")
        command.add_argument(
            "--again-rejected", action="store_true", help="measure again what was refused before"
        )
        command.set_defaults(run=_measure, most_pairs=None)
        command.add_argument(
            "--at-once",
            type=int,
            metavar="N",
            help="hold up to N configurations on the device: each starts once, their pairs share windows",
        )
        if name == "pairs":
            _pair_option(command)
    command = commands.add_parser("plan", parents=[shared], help="what is left, in which order, how long")
    _pair_option(command)
    command.add_argument("--solo", action="store_true", help="configurations alone only")
    command.add_argument("--write", metavar="FILE", help="write the plan as JSON, for --plan")
    command.add_argument("--first", type=int, default=10, metavar="N", help="tasks to print; default 10")
    command.set_defaults(run=_plan, again_rejected=False, at_once=None)
    command = commands.add_parser(
        "summary", parents=[json_flag], help="the profile tables that a measurement table gives"
    )
    command.add_argument("table", help="the measurement table")
    command.add_argument("--write", metavar="DIR", help="write solo_profiles.csv, pair_profiles.csv, ...")
    command.set_defaults(run=_summary)
    command = commands.add_parser(
        "compare",
        parents=[json_flag],
        help="how well two measurements agree; exit code 3 when they do not",
    )
    command.add_argument("first", help="a measurement table")
    command.add_argument("second", nargs="?", help="another; without: the pairs of equals of the first")
    command.set_defaults(run=_compare)
    return parser


def _pair_option(command: argparse.ArgumentParser) -> None:
    command.add_argument("--most-pairs", type=int, metavar="N", help="measure at most N pairs in all")


def _asked(options: argparse.Namespace) -> ProfileOptions:
    return ProfileOptions(
        workloads=options.workloads,
        device=options.device,
        out=options.out,
        window_s=options.window_s,
        repeats=options.repeats,
        warmup_s=options.warmup_s,
        budget_s=options.budget_s,
        most_pairs=options.most_pairs,
        again_rejected=options.again_rejected,
        at_once=options.at_once,
    )


def _print(options: argparse.Namespace, document: object, lines: Sequence[str]) -> None:
    text = (
        json.dumps(document, indent=2, allow_nan=False) if options.json else "\n".join(map(on_screen, lines))
    )
    sys.stdout.write(text + "\n")


def _say(line: str) -> None:
    sys.stderr.write(on_screen(line) + "\n")


if __name__ == "__main__":
    sys.exit(main())
