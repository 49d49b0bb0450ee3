"""`lucid replay-updates`: what retraining monthly, weekly or daily buys over a log."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foundation.errors import BadInputError
from lucid_cli.options import (
    EndOption,
    GpusPerNodeOption,
    StartOption,
    TimeZoneOption,
    file_option,
    parse_time,
)
from lucid_cli.output import JsonFlag, print_facts, print_lines, print_table, progress_reporter, show

if TYPE_CHECKING:
    from foundation.progress import Progress


def replay_updates(
    source_format: Annotated[
        str | None, typer.Option("--format", metavar="F", help="The log's format, e.g. philly-csv.")
    ] = None,
    source: Annotated[Path | None, file_option("The log; may end in .gz.", "--input")] = None,
    nodes: Annotated[Path | None, file_option("CSV virtual_cluster,nodes; without it errors only.")] = None,
    gpus_per_node: GpusPerNodeOption = 8,
    synthetic: Annotated[
        str | None, typer.Option(metavar="CLUSTER", help="A synthetic log instead, e.g. helios-venus.")
    ] = None,
    days: Annotated[int, typer.Option(min=2, help="Days of the synthetic log.")] = 84,
    seed: Annotated[int, typer.Option(min=0, help="Of the synthetic log and its colocation.")] = 0,
    throughput: Annotated[
        Path | None, file_option("Also, or only: throughput CSV in Helios's layout.")
    ] = None,
    test_days: Annotated[int, typer.Option(min=1, help="Last days of it that are forecast.")] = 28,
    interval: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="never, monthly, weekly, daily; default: all. Repeatable."),
    ] = None,
    train_days: Annotated[
        float, typer.Option(min=1, help="Days before each fit that it learns from.")
    ] = 28.0,
    start: StartOption = None,
    end: EndOption = None,
    time_zone: TimeZoneOption = None,
    singles: Annotated[Path | None, file_option("Measured solo profiles.")] = None,
    pairs: Annotated[Path | None, file_option("Measured pairs.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that fit and simulate.")] = 1,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Tables, a page and a plot.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Replay a months-long log with models updated never, monthly, weekly and daily.

    Errors over time, with frozen and with live statistics, and what each is worth in queuing delay and JCT
    under Lucid (its paper, section 4.5).
    """
    from experiments.updates.update_intervals import INTERVALS
    from experiments.updates.update_replay import replay_throughput_updates
    from experiments.updates.update_report import shown_throughput, shown_updates, write_updates

    logs = (source is not None) + (synthetic is not None)
    if logs > 1 or (not logs and throughput is None):
        raise BadInputError(
            "The log is not clear.",
            remedy="Give --format F --input FILE, --synthetic helios-venus, or --throughput FILE alone.",
        )
    chosen = interval or list(INTERVALS)
    document: dict[str, Any] = {"updates": [], "over_time": [], "throughput": [], "remarks": []}
    with progress_reporter() as progress:
        if logs:
            jobs, cluster, remarks = _log(
                source_format, source, nodes, gpus_per_node, synthetic, days, seed, time_zone, progress
            )
            jobs = _within(jobs, start, end, time_zone, source_format)
            found = _replay(jobs, cluster, chosen, train_days, singles, pairs, seed, workers, progress)
            document |= {"updates": list(found.rows), "over_time": list(found.over_time)}
            document["remarks"] += [*remarks, *found.remarks]
        if throughput is not None:
            from cluster_logs.ingest import read_throughput_file

            table = read_throughput_file(str(throughput), time_zone="UTC")
            document["throughput"] = list(
                replay_throughput_updates(table, intervals=chosen, test_days=test_days, progress=progress)
            )
    files = write_updates(document, out) if out is not None else []

    def people() -> None:
        if document["updates"]:
            print_table(shown_updates(document["updates"]), title="Updates of the duration model")
        if document["throughput"]:
            print_table(shown_throughput(document["throughput"]), title="Updates of the throughput model")
        print_lines(document["remarks"])
        if files:
            print_facts({"written": str(out)})

    show({**document, "files": [str(file) for file in files]}, as_json=as_json, people=people)


def _log(
    source_format: str | None,
    source: Path | None,
    nodes: Path | None,
    gpus_per_node: int,
    synthetic: str | None,
    days: int,
    seed: int,
    time_zone: str | None,
    progress: "Progress",
) -> tuple[Any, Any, list[str]]:
    """Read or make the job table, and the cluster where its size is known."""
    from cluster_logs.ingest import read_jobs_file
    from cluster_logs.readers.nodes_file import read_nodes_file
    from cluster_logs.synthetic.generator import synthesize
    from simulator.cluster.spec import ClusterSpec

    if synthetic is not None:
        made = synthesize(synthetic, days, seed, progress=progress)
        said = f"The log is synthetic: lucid synthesize --like {synthetic} --days {days} --seed {seed}."
        return made.jobs, ClusterSpec.from_nodes(made.nodes), [said]
    if source is None or source_format is None:
        raise BadInputError("A log needs its format.", remedy="Give --format F with --input FILE.")
    jobs, account = read_jobs_file(str(source), source_format, time_zone=time_zone, progress=progress)
    remarks = [f"Rows of the log that are left out: {account.left_out}."] if account.left_out else []
    if jobs.empty:
        raise BadInputError(f"{source} holds no usable job. {' '.join(remarks)}", remedy="Check --format.")
    if nodes is None:
        return jobs, None, remarks
    sizes = read_nodes_file(str(nodes), gpus_per_node=gpus_per_node)
    return jobs, ClusterSpec.from_nodes(sizes), remarks


def _within(
    jobs: Any, start: str | None, end: str | None, time_zone: str | None, source_format: str | None
) -> Any:
    from zoneinfo import ZoneInfo

    from cluster_logs.readers.base import load_reader
    from pipeline.replay.log_file import within

    zone = time_zone or (load_reader(source_format).time_zone if source_format else "UTC")
    return within(jobs, parse_time(start, "--start"), parse_time(end, "--end"), ZoneInfo(zone))


def _replay(
    jobs: Any,
    cluster: Any,
    intervals: list[str],
    train_days: float,
    singles: Path | None,
    pairs: Path | None,
    seed: int,
    workers: int,
    progress: "Progress",
) -> Any:
    from experiments.updates.update_replay import replay_updates as replay
    from pipeline.replay.log_scenario import measured_colocation

    if (singles is None) != (pairs is None):
        raise BadInputError("Colocation needs both measurements.", remedy="Give --singles and --pairs.")
    profiles, colocation = measured_colocation(
        singles,
        pairs,
        seed,
    )
    return replay(
        jobs,
        intervals=intervals,
        training_days=train_days,
        cluster=cluster,
        profiles=profiles,
        colocation=colocation,
        workers=workers,
        progress=progress,
    )


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(replay_updates)
