"""`lucid inference`: the load of inference servers, whose idle ones may be lent to training."""

from typing import Annotated

import typer

from lucid_cli.options import (
    ClusterOption,
    LakeOption,
    WaitOption,
    lake_or_default,
)
from lucid_cli.output import JsonFlag, progress_reporter, show_facts
from lucid_cli.prometheus_options import SECRETS, FromOption, UntilOption, prometheus_query
from parts.lending.options import FullLoadOption, ServersOption, ZerosAreGapsOption

app = typer.Typer(help="Load of inference servers, whose idle ones may be lent.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Load of inference servers, whose idle ones may be lent."""


@app.command()
def ingest(
    cluster: ClusterOption,
    prometheus: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help=f"Prometheus that measures the load. {SECRETS}",
        ),
    ],
    query: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=PROMQL",
            help="What is measured: usage (0 to 1) or requests_per_s, and servers; $step is a bin's length.",
        ),
    ],
    start: FromOption = None,
    end: UntilOption = None,
    step_s: Annotated[float, typer.Option(min=1, help="Seconds of a bin.")] = 300.0,
    servers: ServersOption = None,
    full_load: FullLoadOption = None,
    zeros_are_gaps: ZerosAreGapsOption = False,
    lake: LakeOption = None,
    wait: WaitOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Read the load of a cluster's inference servers from a Prometheus into the lake.

    A file is a format of `lucid ingest`: inference-load.
    """
    from parts.lending.load.ingest import ingest_measured_load
    from parts.lending.load.queries import InferenceLoadQuery, parse_load_queries
    from parts.lending.load.table import LoadReading

    load = InferenceLoadQuery(
        prometheus_query(prometheus, start, end, step_s),
        parse_load_queries(query),
        LoadReading(servers, full_load, zeros_are_gaps),
    )
    with progress_reporter() as progress:
        report = ingest_measured_load(
            lake_uri=lake_or_default(lake), cluster=cluster, query=load, wait_s=wait, progress=progress
        )
    show_facts(report, as_json=as_json, title=f"Inference load of {cluster}")


@app.command(name="show")
def show_load(cluster: ClusterOption, lake: LakeOption = None, as_json: JsonFlag = False) -> None:
    """Say what the lake knows of the load: when, from where, how much of it is a gap."""
    from parts.lending.load.ingest import show_inference_load

    document = show_inference_load(lake_uri=lake_or_default(lake), cluster=cluster)
    show_facts(document, as_json=as_json, title=f"Inference load of {cluster}")
