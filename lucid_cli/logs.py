"""`lucid ingest`, `lucid synthesize`, `lucid validate`: logs into the lake."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster_logs.log_sources import SLURM
from cluster_logs.quarantine import MAX_BAD_SHARE
from cluster_logs.readers.registry import formats
from foundation.errors import BadInputError
from lucid_cli.options import (
    ClusterOption,
    GpusPerNodeOption,
    LakeOption,
    TrackingOption,
    WaitOption,
    lake_or_default,
    parse_time,
    tracking_or_default,
)
from lucid_cli.output import JsonFlag, print_facts, print_table, progress_reporter, say, show, to_jsonable
from lucid_cli.part_options import IngestOptions, with_part_options
from lucid_cli.setting_pairs import named_texts

if TYPE_CHECKING:
    from cluster_logs.validation import ValidationReport


@with_part_options("ingest")
def ingest(
    of_parts: tuple[IngestOptions, ...],
    source_format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="F",
            help=f"{', '.join(formats())}; slurm: this machine's accounting.",
        ),
    ],
    cluster: ClusterOption,
    source: Annotated[
        str | None,
        typer.Option("--input", metavar="FILE", help="File or URI; may end in .gz. None for slurm."),
    ] = None,
    lake: LakeOption = None,
    time_zone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="Zone of naive times; default: the format's own.")
    ] = None,
    start: Annotated[
        str | None, typer.Option(metavar="TIME", help="Jobs submitted from then on; naive: the log's zone.")
    ] = None,
    end: Annotated[str | None, typer.Option(metavar="TIME", help="Jobs submitted before then.")] = None,
    trace_start: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Second 0 of a trace that counts seconds from its own start; alibaba-v2023: 2023-01-01.",
        ),
    ] = None,
    nodes: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CSV virtual_cluster,nodes, or a row a node: kept in the lake."),
    ] = None,
    gpus_per_node: GpusPerNodeOption = 8,
    bin_s: Annotated[
        int, typer.Option("--bin-s", min=1, help="Seconds of a bin of the throughput counted from jobs.")
    ] = 600,
    max_bad_share: Annotated[
        float,
        typer.Option(
            "--max-bad-share",
            metavar="SHARE",
            help="Most rows that may be bad, 0 to 1; with more nothing is written. 1: any number.",
        ),
    ] = MAX_BAD_SHARE,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="OURS=THEIRS",
            help="jobs-csv: what the file calls a column of the job table, such as gpus=num_gpus; again for "
            "each.",
        ),
    ] = None,
    mark_key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The live scheduler's mark.key: whose marks in sacct's comments count.",
        ),
    ] = None,
    wait: WaitOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Read a cluster's log into the lake.

    Every row is kept, quarantined with a reason, or skipped by a named rule. The format slurm is the live
    accounting (sacct) with the nodes (sinfo); its window holds what waited or ran in it: by default since the
    newest job in the lake, with a day of overlap, or the last 30 days.
    """
    from cluster_logs.ingest import IngestSettings
    from pipeline.ingest.ingestion import ClusterLog, ingest_cluster

    if (source_format == SLURM) == (source is not None):
        raise BadInputError(
            f"Format {source_format!r} {'reads no file' if source else 'needs a file'}.",
            remedy="Leave --input out." if source else "Give it with --input.",
        )
    with progress_reporter() as progress:
        facts = ingest_cluster(
            ClusterLog(
                source_format,
                source,
                nodes_uri=str(nodes) if nodes else None,
                nodes_required=False,  # models can be trained, and the log described, without
                mark_key_file=mark_key,
            ),
            cluster=cluster,
            lake_uri=lake_or_default(lake),
            settings=IngestSettings(
                time_zone=time_zone,
                gpus_per_node=gpus_per_node,
                start=parse_time(start, "--start"),
                end=parse_time(end, "--end"),
                trace_start=parse_time(trace_start, "--trace-start"),
                bin_s=bin_s,
                max_bad_share=max_bad_share,
                beside=next(filter(None, (each.beside(source_format) for each in of_parts)), None),
                columns=named_texts(column, "--column", "gpus=num_gpus"),
                wait_s=wait,
            ),
            progress=progress,
        )
    for remark in facts.get("remarks", ()):
        say(remark)
    account = {name: value for name, value in facts.items() if name != "remarks"}
    log = source or "Slurm's accounting"
    show(facts, as_json=as_json, people=lambda: print_facts(account, title=f"Ingested {log}"))


def synthesize(
    like: Annotated[str, typer.Option(metavar="CLUSTER", help="helios-venus, helios-saturn or philly.")],
    days: Annotated[int, typer.Option(min=1, help="Days of submissions.")],
    seed: Annotated[int, typer.Option(help="The same seed gives the same cluster.")] = 0,
    lake: LakeOption = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name in the lake; default: synthetic-CLUSTER.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the log as a file.")] = None,
    out_format: Annotated[str, typer.Option("--format", metavar="F", help="The file's format.")] = "helios",
    wait: WaitOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a cluster's log that looks like a published one, so that nothing needs to be downloaded."""
    from cluster_logs.lake import Lake
    from cluster_logs.synthetic import export, generator

    made = generator.synthesize(like, days=days, seed=seed)
    name = cluster or f"synthetic-{like}"
    target = Lake(lake_or_default(lake), wait_s=wait)
    tables = generator.write_to_lake(made, target, name)
    if out is not None:
        export.write_log(made, out, out_format)
    document = {
        "jobs": len(made.jobs),
        "virtual_clusters": len(made.nodes),
        "cluster": name,
        "tables": tables,
        "statistics": made.statistics(),
    }
    show(
        document,
        as_json=as_json,
        people=lambda: print_facts(
            {key: value for key, value in document.items() if key != "statistics"} | made.statistics(),
            title=f"Synthesized {days} days like {like}",
        ),
    )


def validate(
    cluster: ClusterOption,
    lake: LakeOption = None,
    tables: Annotated[
        list[str] | None, typer.Option("--table", help="jobs, throughput; default: both.")
    ] = None,
    wait: WaitOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Check a cluster's tables against their expectations.

    Failing rows go to quarantine; a failing table is an error.
    """
    from cluster_logs.validation import validate_lake

    report = validate_lake(
        lake_uri=lake_or_default(lake),
        cluster=cluster,
        tables=tables or ("jobs", "throughput"),
        wait_s=wait,
    )
    document = {"success": report.success, "expectations": report.expectations, "docs": report.docs}

    show(document, as_json=as_json, people=lambda: print_expectations(cluster, report))
    report.raise_for_failure()


def print_expectations(cluster: str, report: "ValidationReport") -> None:
    """Print how many expectations hold, and which do not."""
    unmet = [to_jsonable(row) for row in report.expectations if not row["success"]]
    if unmet:
        columns = ("suite", "name", "columns", "severity", "observed")
        print_table(unmet, title=f"Expectations of {cluster} that do not hold", columns=columns)
    held = f"{len(report.expectations) - len(unmet)} of {len(report.expectations)} hold"
    print_facts({"success": report.success, "expectations": held, "docs": report.docs})


def remove_cluster(
    cluster: ClusterOption,
    lake: LakeOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove; without it, only say what would go.")] = False,
    tracking_uri: TrackingOption = None,
    wait: WaitOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Remove a cluster from the lake: its rows, profiles and studies. Other clusters are left alone.

    Its releases stay, and schedulers go on with the one that is live; the cluster is no longer shown.
    """
    from cluster_logs import removal
    from lucid_models.releases.clusters import note_removal

    lake_uri = lake_or_default(lake)
    if not yes:
        held = removal.holdings(lake_uri, cluster)
        raise BadInputError(
            f"Nothing was removed. Of cluster {cluster!r} the lake {lake_uri} holds {held.in_words()}.",
            remedy="Add --yes to remove all of it.",
        )
    note_removal(tracking_or_default(tracking_uri), cluster)
    with progress_reporter() as progress:
        gone = removal.remove_cluster(lake_uri, cluster, wait_s=wait, progress=progress)
    facts = {"cluster": cluster, "rows": gone.rows, "files": sum(gone.files.values()), "folders": gone.files}
    show(
        facts,
        as_json=as_json,
        people=lambda: print_facts(
            {"files": facts["files"], **{f"rows of {table}": count for table, count in gone.rows.items()}},
            title=f"Removed {cluster} from {lake_uri}",
        ),
    )


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    for command in (ingest, synthesize, validate, remove_cluster):
        app.command()(command)
