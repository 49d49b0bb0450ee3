"""`lucid simulate`: replay a log under one or more policies."""

from pathlib import Path
from typing import Annotated

import typer

from cluster_logs.errors import BadInputError
from pipeline.cli.options import GpusPerNodeOption, existing_file, parse_time, setting_value
from pipeline.cli.output import JsonFlag, plain, print_facts, print_table, progress_reporter, say, show
from pipeline.cli.variadic import names_of, variadic

SHOWN_COLUMNS = (
    "policy",
    "jobs",
    "mean_jct_s",
    "mean_queuing_delay_s",
    "p999_queuing_delay_s",
    "makespan_s",
    "utilisation_pct",
    "preemptions",
    "jobs_per_cpu_s",
)


def simulate(
    jobs: Annotated[Path, typer.Option(metavar="FILE", help="The log to replay.")],
    source_format: Annotated[str, typer.Option("--format", metavar="F", help="The log's format.")],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Receives jobs_POLICY.csv, summary.json and plots.")
    ],
    policy: Annotated[
        list[str], typer.Option(metavar="P ...", help="Policies' names: a b, a,b or repeated.")
    ],
    nodes: Annotated[Path | None, typer.Option(metavar="FILE", help="CSV virtual_cluster,nodes.")] = None,
    gpus: Annotated[
        int | None, typer.Option(min=1, help="Or: one virtual cluster of N GPUs for every job.")
    ] = None,
    gpus_per_node: GpusPerNodeOption = 8,
    start: Annotated[
        str | None, typer.Option(metavar="TIME", help="First submission; naive: the log's zone.")
    ] = None,
    end: Annotated[str | None, typer.Option(metavar="TIME", help="Last submission, included.")] = None,
    time_zone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="Zone of naive times in the log.")
    ] = None,
    rules: Annotated[
        str,
        typer.Option(
            help="default, or a reference simulator's: lucid-artifact, helios-artifact, or without some of "
            "its faults, as in lucid-artifact-without:lost_partner,free_profiling (all: without any)."
        ),
    ] = "default",
    setting: Annotated[
        list[str] | None,
        typer.Option(metavar="POLICY.NAME=VALUE", help="A policy's setting; may be repeated."),
    ] = None,
    singles: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Solo profiles, for the Lucid policy.")
    ] = None,
    pairs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Colocated pairs, for the Lucid policy.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of whatever the log does not say (drawn job types).")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Replay a log under one or more policies and compare them."""
    from pipeline.simulation import simulate_log

    if (nodes is None) == (gpus is None):
        raise BadInputError(
            "The cluster's size is not clear.", remedy="Give either --nodes FILE or --gpus N."
        )
    if (singles is None) != (pairs is None):
        raise BadInputError("Colocation needs both measurements.", remedy="Give --singles and --pairs.")
    with progress_reporter() as progress:
        report = simulate_log(
            jobs_path=existing_file(jobs, "--jobs"),
            source_format=source_format,
            nodes_path=existing_file(nodes, "--nodes") if nodes else None,
            gpus=gpus,
            gpus_per_node=gpus_per_node,
            start=parse_time(start, "--start"),
            end=parse_time(end, "--end"),
            time_zone=time_zone,
            policies=names_of(policy),
            settings=parse_settings(setting or []),
            rules=rules,
            singles_path=existing_file(singles, "--singles") if singles else None,
            pairs_path=existing_file(pairs, "--pairs") if pairs else None,
            seed=seed,
            out_dir=out,
            progress=progress,
        )
    for line in report.remarks:
        say(line)

    def people() -> None:
        print_table(plain(report.summaries), title=f"{jobs.name} replayed", columns=SHOWN_COLUMNS)
        print_facts({"written": str(out)})

    show(plain(report.summaries), as_json=as_json, people=people)


def parse_settings(pairs: list[str]) -> dict[str, dict[str, object]]:
    """Read POLICY.NAME=VALUE options; values are JSON where they can be read as such, else text."""
    settings: dict[str, dict[str, object]] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        policy, dot, name = key.partition(".")
        if not (sign and dot and policy and name):
            raise BadInputError(
                f"--setting {pair!r} is not POLICY.NAME=VALUE.",
                remedy="Write for example lucid.sharing=apathetic.",
            )
        settings.setdefault(policy, {})[name] = setting_value(value)
    return settings


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(cls=variadic("--policy", "--setting"))(simulate)
