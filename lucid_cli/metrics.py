"""`lucid metrics`: what production jobs need of their GPUs, measured while they run."""

from pathlib import Path
from typing import Annotated

import typer

from lucid_cli.options import ClusterOption, LakeOption, lake_or_default, parse_time
from lucid_cli.output import JsonFlag, print_facts, print_table, progress_reporter, show, show_facts
from lucid_cli.prometheus_options import SECRETS, FromOption, UntilOption, prometheus_query

app = typer.Typer(help="What production jobs need, measured while they run.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """What production jobs need, measured while they run."""


@app.command()
def ingest(
    cluster: ClusterOption,
    lake: LakeOption = None,
    prometheus: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="LUCID_PROMETHEUS_URL",
            help=f"Prometheus with the dcgm-exporter's metrics. {SECRETS}",
        ),
    ] = None,
    start: FromOption = None,
    end: UntilOption = None,
    step_s: Annotated[float, typer.Option(min=1, help="Seconds of a sample of Prometheus.")] = 30.0,
    match: Annotated[
        str, typer.Option(metavar="MATCHERS", help="Series to read, e.g. 'cluster=\"a\"'; default: all.")
    ] = "",
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=NAME[:FACTOR]",
            help="A metric that the exporter names otherwise; ours = FACTOR x.",
        ),
    ] = None,
    job_label: Annotated[
        str | None, typer.Option(metavar="LABEL", help="Label that names the job; default: hpc_job, pod.")
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Samples: Parquet or a folder of it, a saved response, OpenMetrics text, "
            "what `promtool tsdb dump` wrote.",
        ),
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="When a scrape without times was made (UTC).")
    ] = None,
    allocations: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="CSV or Parquet job_id,gpu_uuid,start_time,end_time; default: the samples' job labels.",
        ),
    ] = None,
    scontrol: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="What `TZ=UTC scontrol show job -d` wrote.")
    ] = None,
    gpu_map: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="CSV host,index,gpu_uuid, for --scontrol: index is the minor number."
        ),
    ] = None,
    warm_up_s: Annotated[float, typer.Option(min=0, help="Seconds of each run to leave out.")] = 60.0,
    interval_s: Annotated[
        float | None, typer.Option(help="Seconds between samples; default: as they come.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Join GPU metrics to the jobs that ran, and keep what each job needed."""
    from cluster_logs.metrics.dcgm import SeriesRules, read_metric_names
    from cluster_logs.metrics.join import JoinSettings
    from pipeline.ingest.cluster_metrics import MetricsSource, ingest_metrics

    query = None
    if prometheus is not None and not (file and start is None and end is None):
        query = prometheus_query(prometheus, start, end, step_s, match)
    source = MetricsSource(
        prometheus=query,
        files=tuple(file or ()),
        rules=SeriesRules(read_metric_names(metric or ()), job_label),
        scraped_at=parse_time(at, "--at"),
        allocations=tuple(allocations or ()),
        scontrol=tuple(scontrol or ()),
        gpu_map=None if gpu_map is None else str(gpu_map),
    )
    with progress_reporter() as progress:
        report = ingest_metrics(
            lake_uri=lake_or_default(lake),
            cluster=cluster,
            source=source,
            settings=JoinSettings(warm_up_s=warm_up_s, interval_s=interval_s),
            progress=progress,
        )
    show_facts(report, as_json=as_json, title=f"Metrics of {cluster}")


@app.command(name="show")
def show_coverage(cluster: ClusterOption, lake: LakeOption = None, as_json: JsonFlag = False) -> None:
    """Say what share of the GPU jobs has been measured, and how well."""
    from pipeline.ingest.cluster_metrics import show_metrics

    document = show_metrics(lake_uri=lake_or_default(lake), cluster=cluster)

    def people() -> None:
        print_facts({key: value for key, value in document.items() if key != "origins"})
        if document["origins"]:
            print_table(document["origins"], title=f"Metrics of {cluster} by origin")

    show(document, as_json=as_json, people=people)
