"""Steps that bring a cluster's log, its throughput, profiles, metrics and series into the lake."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from cluster_logs.ingest import IngestSettings
from cluster_logs.log_sources import SLURM
from cluster_logs.quarantine import MAX_BAD_SHARE
from foundation.errors import BadInputError, NotFoundError
from foundation.jsonable import to_jsonable
from foundation.site import Site
from foundation.steps import Done, NothingToDo, StepRun
from pipeline.ingest import cluster_metrics, ingestion
from pipeline.ingest.measured_series import RecordedSeries
from pipeline.ingest.node_states import ingest_recorded_counts
from pipeline.ingest.slurm_log import AccountingWindow
from pipeline.ingest.table_validation import check_table
from pipeline.profiling import profile_store
from pipeline.training.windows import read_time

_PARTS = ("kept", "quarantined", "skipped")  # of the rows that came in


_log = logging.getLogger(__name__)


def asked_window(run: StepRun, start: Any, end: Any) -> tuple[datetime | None, datetime | None]:
    """Return the window that the form names (texts), else the interval of a run by the clock."""
    begun, ended = run.interval
    return read_time(start) or begun, read_time(end) or ended


def read_accounting(
    *,
    run: StepRun,
    site: Site,
    source_format: str,
    nodes_uri: str | None = None,
    start: Any = None,
    end: Any = None,
) -> Done:
    """Write what Slurm's accounting knows of the run's interval into the lake's staging area, and its nodes.

    Needs Slurm's programs (sacct, squeue, sinfo). Nothing to do unless the source is `slurm`. The window
    begins with the newest job in the lake at the latest, and a day before that: what was late is read again.
    Returns the URIs and the window.
    """
    if source_format != SLURM:
        raise NothingToDo(f"The source is {source_format!r}, not a live Slurm.")
    begun, ended = run.interval
    staged = ingestion.read_accounting(
        cluster=site.cluster,
        lake_uri=site.lake,
        window=AccountingWindow(read_time(start), read_time(end) or ended, interval_start=begun),
        nodes=not nodes_uri,
        progress=site.progress,
    )
    for remark in (staged["nodes"] or {}).get("remarks", ()):
        _log.warning("%s", remark)
    window = f"from {staged['start']} to {staged['end']}"
    sentence = f"Slurm's accounting of {site.cluster} has {staged['rows']:,} rows {window}."
    return Done(staged, sentence, on_the_way=True)


def ingest_log(
    *,
    run: StepRun,
    site: Site,
    source_format: str,
    input_uri: str | None = None,
    nodes_uri: str | None = None,
    gpus_per_node: int = 8,
    time_zone: str | None = None,
    start: Any = None,
    end: Any = None,
    days: int = 30,
    seed: int = 0,
    staged_uris: Sequence[str] | None = None,
    max_bad_share: float = MAX_BAD_SHARE,
    trace_start: Any = None,
    columns: Mapping[str, str] | None = None,
) -> Done:
    """Read a cluster's log, or make a synthetic one, into the lake's job table.

    Every row is kept, quarantined with a reason or skipped by a named rule; the same input twice gives the
    same table. Without a window the jobs are those of the run's interval, if it has one. Returns the account.
    """
    begun, ended = asked_window(run, start, end)
    report = ingestion.ingest_cluster(
        ingestion.ClusterLog(
            source_format, input_uri, nodes_uri=nodes_uri, days=days, seed=seed, staged_uris=staged_uris
        ),
        cluster=site.cluster,
        lake_uri=site.lake,
        settings=IngestSettings(
            time_zone=time_zone,
            gpus_per_node=gpus_per_node,
            start=begun,
            end=ended,
            max_bad_share=float(max_bad_share),
            trace_start=read_time(trace_start),
            columns=dict(columns or {}),
        ),
        progress=site.progress,
    )
    return rows_read(site.cluster, report, on_the_way=False)


def ingest_throughput(*, site: Site, input_uri: str | None, time_zone: str | None = None) -> Done:
    """Read a published throughput table into the lake; nothing to do when the form names none."""
    if not input_uri:
        raise NothingToDo("No throughput file is named: throughput is counted from the job table.")
    report = ingestion.ingest_throughput(
        input_uri=input_uri, cluster=site.cluster, lake_uri=site.lake, time_zone=time_zone
    )
    return rows_read(f"the throughput of {site.cluster}", report)


def ingest_profiles(
    *, site: Site, singles_uri: str | None = None, pairs_uri: str | None = None, seed: int = 0
) -> Done:
    """Store measured GPU profiles; when no file is named, keep those that were measured for the cluster, or
    measure the zoo on the simulated GPU.
    """
    report = profile_store.ingest_profiles(site, singles_uri=singles_uri, pairs_uri=pairs_uri, seed=seed)
    origin = "that were measured before stay" if report.kept else "are stored"
    sentence = f"{report.solo_rows} solo profiles and {report.pair_rows} pairs of {site.cluster} {origin}."
    if report.simulated:
        sentence += (
            " They come from the simulated GPU; the release will say so. Of a real log it orders jobs "
            "and lets none share GPUs, until its GPUs are measured or 'Simulated profiles may be "
            "published' is on."
        )
    return Done(asdict(report), sentence, on_the_way=True)


def ingest_metrics(
    *,
    run: StepRun,
    site: Site,
    prometheus_url: str | None,
    metrics_uri: str | None = None,
    allocations_uri: str | None = None,
    start: Any = None,
    end: Any = None,
) -> Done:
    """Join GPU metrics to the cluster's jobs; nothing to do when there is neither a Prometheus nor a file, or
    no sample of these jobs.

    The address of Prometheus and its secrets are the installation's, never the form's: who may fill in a form
    must not choose where a secret is sent. A scheduled run reads its interval, unless the form names a
    window; a run by hand all that the lake's jobs ran.
    """
    if not prometheus_url and not metrics_uri:
        raise NothingToDo("Neither LUCID_PROMETHEUS_URL nor a file of metrics is named.")
    begun, ended = asked_window(run, start, end)
    try:
        recorded = cluster_metrics.ingest_recorded(
            lake_uri=site.lake,
            cluster=site.cluster,
            prometheus_url=prometheus_url,
            files=[metrics_uri] if metrics_uri else [],
            allocations=[allocations_uri] if allocations_uri else [],
            start=begun,
            end=ended,
            progress=site.progress,
        )
    except NotFoundError as error:  # these jobs were not measured; the models do without
        raise NothingToDo(str(error)) from error
    report: dict[str, Any] = to_jsonable(recorded)
    _log.info("samples: %s", report["samples"])
    remarks = [*(report.get("remarks") or ()), f"{report['jobs']:,} jobs have metrics."]
    return rows_read(f"the GPU metrics of {site.cluster}", {**report, "remarks": remarks})


def series_read(
    what: str, source: RecordedSeries, ingest: Callable[[RecordedSeries], dict[str, Any]]
) -> Done:
    """Read a cluster's series of measurements by `ingest`; nothing to do where neither a file nor a server is
    named and nothing else tells it.
    """
    try:
        report = ingest(source)
    except (BadInputError, NotFoundError) as error:
        if source.is_named:
            raise
        raise NothingToDo(str(error)) from error
    return rows_read(f"{what} of {source.cluster}", report)


def ingest_node_states(
    *,
    run: StepRun,
    site: Site,
    prometheus_url: str | None,
    node_queries: Sequence[str],
    source_format: str,
    node_states_uri: str | None = None,
    time_zone: str | None = None,
    start: Any = None,
    end: Any = None,
) -> Done:
    """Count the cluster's nodes by state as a published sequence, Prometheus or Slurm says.

    Prometheus is asked where `LUCID_NODE_QUERIES` says how. Without any of them the fewest nodes that hold
    the jobs are derived; nothing to do where the jobs do not tell.
    """
    begun, ended = asked_window(run, start, end)
    source = RecordedSeries(
        site.lake,
        site.cluster,
        input_uri=node_states_uri,
        time_zone=time_zone,
        prometheus_url=prometheus_url,
        queries=list(node_queries),
        start=begun,
        end=ended,
    )
    return series_read(
        "the counts of nodes",
        source,
        lambda named: ingest_recorded_counts(named, source_format, site.progress),
    )


def announce_tables(
    *,
    run: StepRun,
    site: Site,
    hold_out_days: int = 14,
    as_of: str | None = None,
    allow_simulated_profiles: bool = False,
) -> Done:
    """Tell the next DAG that all tables are ready and where they are.

    One step announces all of them, after every validation: a failed table starts nothing. Nor does a run by
    the clock: a live cluster's log grows every hour, and models are trained anew when `monitor_live` asks for
    it, or by LUCID_RETRAIN_SCHEDULE.
    """
    if run.by_clock:
        raise NothingToDo("A run by the clock starts no retraining.")
    until = run.interval[1]
    told = {
        "cluster": site.cluster,
        "lake_uri": site.lake,
        "hold_out_days": hold_out_days,
        "as_of": as_of or (until.isoformat() if until else None),
        "allow_simulated_profiles": bool(allow_simulated_profiles),
    }
    sentence = (
        f"The tables of {site.cluster} are announced: retrain_models starts, and what else waits for them."
    )
    return Done(told, sentence, announced=told, on_the_way=True)


def validate_table(
    *, run: StepRun, lake_uri: str, state_dir: Path, table: str, clusters: Sequence[str | None]
) -> Done:
    """Check one table of the clusters against its expectations; returns how many were checked by cluster.

    Failing rows go to quarantine; a failing table fails the step with the names of its expectations.
    """
    docs_root = state_dir / "data_docs"
    checked, sentences, page = {}, [], None
    for cluster in dict.fromkeys(name for name in clusters if name):
        report = check_table(
            table=table, lake_uri=lake_uri, cluster=cluster, docs_dir=docs_root / cluster / table
        )
        path = (report.docs or "").removeprefix("file://")
        if path.startswith(str(docs_root)):
            page = f"lucid/data-docs/{path.removeprefix(str(docs_root)).lstrip('/')}"
            run.link_to(page=page)
        failed = [row for row in report.expectations if not row["success"]]
        for row in failed:
            _log.warning("expectation not met: %s", row)
        report.raise_for_failure()
        checked[cluster] = len(report.expectations)
        held = checked[cluster] - len(failed)
        sentences.append(f"The {table} of {cluster}: {held} of {checked[cluster]} expectations hold.")
    return Done(checked, " ".join(sentences), page=page, on_the_way=True)


def rows_read(what: str, report: Mapping[str, Any], *, on_the_way: bool = True) -> Done:
    """Return the account of the rows of `what`: how many came in, what became of each, with the reasons."""
    counts = {part: int(report[f"rows_{part}"]) for part in _PARTS}
    parts = " + ".join(f"{count:,} {part}" for part, count in counts.items())
    reasons = ", ".join(f"{count:,} {name}" for name, count in (report.get("reasons") or {}).items())
    account = f"{report['rows_in']:,} rows of {what} in = {parts}{f' ({reasons})' if reasons else ''}."
    sentence = " ".join([account, *map(str, report.get("remarks") or ())])
    return Done(dict(report), sentence, bars=("Rows", counts), on_the_way=on_the_way)
