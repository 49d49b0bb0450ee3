"""`lucid nodes ingest` and `lucid nodes show`: how many nodes were busy, idle, down, asleep or booting."""

from typing import Annotated

import typer

from lucid_cli.options import ClusterOption, LakeOption, WaitOption, lake_or_default, parse_time
from lucid_cli.output import JsonFlag, print_table, progress_reporter, show, show_facts
from lucid_cli.prometheus_options import SECRETS, FromOption, UntilOption, prometheus_query


def ingest(
    cluster: ClusterOption,
    lake: LakeOption = None,
    slurm: Annotated[
        bool, typer.Option("--slurm", help="This machine's Slurm, as it is now (sinfo).")
    ] = False,
    slurm_file: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="What `sinfo --all --Node --noheader --format='%N|%R|%G|%T'` or `scontrol show node` wrote; "
            "a line `# TIME` above each answer says when.",
        ),
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="When a file without times was written (UTC).")
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help=f"Prometheus that counts nodes. {SECRETS}",
        ),
    ] = None,
    query: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATE=PROMQL",
            help="How nodes are counted: busy, total, idle, down, asleep, booting; $step is the time between "
            "counts. Default: the metrics of prometheus-slurm-exporter.",
        ),
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="LABEL", help="Label that names a series' virtual cluster.")
    ] = None,
    start: FromOption = None,
    end: UntilOption = None,
    derive: Annotated[
        bool, typer.Option("--derive", help="From the lake's jobs: the fewest nodes that hold what ran.")
    ] = False,
    step_s: Annotated[
        float | None,
        typer.Option(min=1, help="Seconds between counts; default: 60 of Prometheus, 600 derived."),
    ] = None,
    wait: WaitOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Count a cluster's nodes by state into the lake.

    A published sequence is a format of `lucid ingest`: node-sequence.
    """
    from cluster_logs.derived_nodes import STEP_S
    from cluster_logs.metrics.node_counts import NodeCountQuery, parse_node_queries
    from pipeline.ingest.node_states import NodeStatesSource, ingest_node_states

    counts = None
    if prometheus is not None:
        measured = prometheus_query(prometheus, start, end, step_s or 60.0)
        counts = NodeCountQuery(measured, parse_node_queries(query or ()), label)
    source = NodeStatesSource(
        slurm=slurm,
        slurm_files=tuple(slurm_file or ()),
        at=parse_time(at, "--at"),
        prometheus=counts,
        derive_step_s=round(step_s or STEP_S) if derive else None,
    )
    with progress_reporter() as progress:
        report = ingest_node_states(
            lake_uri=lake_or_default(lake), cluster=cluster, source=source, wait_s=wait, progress=progress
        )
    show_facts(report, as_json=as_json, title=f"Nodes of {cluster}")


def show_counts(cluster: ClusterOption, lake: LakeOption = None, as_json: JsonFlag = False) -> None:
    """Say what the lake knows of a cluster's nodes: when, from where, how much of it is held."""
    from pipeline.ingest.node_states import show_node_states

    document = show_node_states(lake_uri=lake_or_default(lake), cluster=cluster)
    show(
        document,
        as_json=as_json,
        people=lambda: print_table(document["series"], title=f"Nodes of {cluster}"),
    )


def register(app: typer.Typer) -> None:
    """Add the commands to the group."""
    app.command()(ingest)
    app.command(name="show")(show_counts)
