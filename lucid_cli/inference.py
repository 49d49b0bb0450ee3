"""`lucid inference`: the load of inference servers, whose idle ones may be lent to training."""

from typing import Annotated

import typer

from lucid_cli.options import (
    ClusterOption,
    FullLoadOption,
    LakeOption,
    ServersOption,
    WaitOption,
    ZerosAreGapsOption,
    lake_or_default,
    parse_time,
)
from lucid_cli.output import JsonFlag, print_facts, progress_reporter, show, to_jsonable

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
            help="Prometheus that measures the load. Secrets come from LUCID_PROMETHEUS_TOKEN, or "
            "LUCID_PROMETHEUS_USER and LUCID_PROMETHEUS_PASSWORD.",
        ),
    ],
    query: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=PROMQL",
            help="What is measured: usage (0 to 1) or requests_per_s, and servers; $step is a bin's length.",
        ),
    ],
    start: Annotated[str, typer.Option(metavar="TIME", help="From when on (UTC).")],
    end: Annotated[str, typer.Option(metavar="TIME", help="Until when (UTC).")],
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
    from cluster_logs.inference_load import LoadReading
    from cluster_logs.metrics.inference_queries import InferenceLoadQuery, parse_load_queries
    from cluster_logs.metrics.prometheus import PrometheusQuery
    from foundation.errors import BadInputError
    from pipeline.ingest.inference_load import ingest_measured_load

    first, last = parse_time(start, "--start"), parse_time(end, "--end")
    if first is None or last is None:
        raise BadInputError(
            f"Which part of {prometheus} is to be read?", remedy="Give --start and --end (UTC)."
        )
    load = LoadReading(servers, full_load, zeros_are_gaps)
    asked = InferenceLoadQuery(
        PrometheusQuery(prometheus, first, last, step_s), parse_load_queries(query), load
    )
    with progress_reporter() as progress:
        report = ingest_measured_load(
            lake_uri=lake_or_default(lake), cluster=cluster, query=asked, wait_s=wait, progress=progress
        )
    facts = to_jsonable(report)
    show(facts, as_json=as_json, people=lambda: print_facts(facts, title=f"Inference load of {cluster}"))


@app.command(name="show")
def show_load(cluster: ClusterOption, lake: LakeOption = None, as_json: JsonFlag = False) -> None:
    """Say what the lake knows of the load: when, from where, how much of it is a gap."""
    from pipeline.ingest.inference_load import show_inference_load

    document = show_inference_load(lake_uri=lake_or_default(lake), cluster=cluster)
    show(
        document, as_json=as_json, people=lambda: print_facts(document, title=f"Inference load of {cluster}")
    )
