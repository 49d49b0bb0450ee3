"""`lucid characterise`: what a log says of its cluster."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cluster_logs.log_statistics.observed_log import UtilisationRule
from cluster_logs.readers.registry import formats
from foundation.errors import BadInputError
from foundation.site import Site
from lucid_cli.options import (
    GpusPerNodeOption,
    LakeOption,
    TimeZoneOption,
    TrackingOption,
    file_option,
    folder_option,
    lake_or_default,
    parse_time,
    text_of,
    tracking_or_default,
)
from lucid_cli.output import JsonFlag, print_facts, print_lines, print_table, progress_reporter, show

if TYPE_CHECKING:
    from parts.characterisation.report import ClusterReport


def characterise(
    out: Annotated[Path, folder_option("Where page, pictures, CSV files and JSON go.")],
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="NAME", help="A cluster of the lake.")
    ] = None,
    lake: LakeOption = None,
    jobs: Annotated[str | None, typer.Option("--jobs", metavar="FILE", help="A log instead.")] = None,
    source_format: Annotated[
        str | None, typer.Option("--format", metavar="F", help=f"Its format: {', '.join(formats())}.")
    ] = None,
    nodes: Annotated[Path | None, file_option("CSV virtual_cluster,nodes: its cluster's size.")] = None,
    sequence: Annotated[
        Path | None,
        file_option(
            "What was in use over time, where the log does not say: CSV time, busy (active, running), "
            "total, in nodes; or time and a column a virtual cluster, in GPUs."
        ),
    ] = None,
    waiting_sequence: Annotated[
        Path | None,
        file_option("GPUs that waiting jobs ask for: time, a column a virtual cluster."),
    ] = None,
    gpus_per_node: GpusPerNodeOption = 8,
    start: Annotated[
        str | None, typer.Option(metavar="TIME", help="Jobs submitted from then on; naive: the log's zone.")
    ] = None,
    end: Annotated[str | None, typer.Option(metavar="TIME", help="Jobs submitted before then.")] = None,
    time_zone: TimeZoneOption = None,
    utilisation: Annotated[
        UtilisationRule,
        typer.Option(
            metavar="RULE", help="half-open: start <= m < end; inclusive: both minutes, as Helios published."
        ),
    ] = UtilisationRule.HALF_OPEN,
    tracking_uri: TrackingOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Characterise a cluster by its log: the figures, tables and implications of Helios, and more.

    Hours and months are those of the log's own clock (in the lake UTC) unless --time-zone says otherwise.
    What a log lacks is dropped by name. What comes from the lake, or has --tracking-uri, is kept in MLflow.
    """
    from parts.characterisation.inputs import (
        LogFiles,
        View,
        grade_of_cluster,
        grade_of_files,
        read_lake_log,
        read_log_files,
    )
    from parts.characterisation.records import log_report, write_report
    from parts.characterisation.report import report_on

    if cluster is not None and any((jobs, source_format, nodes, sequence, waiting_sequence)):
        raise BadInputError(
            "--cluster reads the lake.",
            remedy="Leave --jobs, --format, --nodes and --sequence out, or --cluster.",
        )
    view = View(parse_time(start, "--start"), parse_time(end, "--end"), time_zone, utilisation)
    with progress_reporter() as progress:
        if cluster is not None:
            site = Site(lake=lake_or_default(lake), cluster=cluster, progress=progress)
            log = read_lake_log(site, view)
            grade = grade_of_cluster(site, log)
        else:
            files = LogFiles(
                jobs,
                source_format,
                nodes=text_of(nodes),
                sequence=text_of(sequence),
                waiting_sequence=text_of(waiting_sequence),
                gpus_per_node=gpus_per_node,
            )
            log = read_log_files(files, view, progress)
            grade = grade_of_files(files, view, log, progress)
        report = report_on(log, progress, grade)
        progress(0, None, "pictures and page")
        page = write_report(report, out)
        if cluster is not None or tracking_uri is not None:
            log_report(report, out, tracking_or_default(tracking_uri))
    document = report.to_dict() | {"page": str(page)}
    show(document, as_json=as_json, people=lambda: _print(report, page))


def _print(report: "ClusterReport", page: Path) -> None:
    from simulator.wait_fidelity.grade import RULE

    rows: list[dict[str, Any]] = [
        {"number": each.number, "implication": each.statement, "value": each.value, "holds": each.holds}
        for each in report.measured.implications
    ]
    print_table(rows, title=f"Cluster {report.cluster}")
    print_lines([sentence.text for sentence in report.summary])
    if report.grade is not None:
        print_lines([report.grade.sentence, RULE])
    reasons = sorted({each.reason for each in report.measured.dropped})
    print_facts(
        {"page": str(page), "dropped": len(report.measured.dropped), "because": "; ".join(reasons) or None}
    )


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(characterise)
