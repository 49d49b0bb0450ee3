"""Logs, throughput and profiles into the lake."""

from datetime import datetime
from typing import Any

from airflow.sdk.exceptions import AirflowSkipException

from cluster_logs.log_sources import SLURM
from cluster_logs.quarantine import MAX_BAD_SHARE
from lucid_airflow import settings
from lucid_airflow.handover import announce, data_interval
from lucid_airflow.operators.base import LucidOperator
from lucid_airflow.operators.row_accounts import tell_rows
from lucid_airflow.run_results import tell


class ReadAccountingOperator(LucidOperator, multiple_outputs=True):
    """Write what Slurm's accounting knows of the data interval into the lake's staging area, and its nodes.

    Needs Slurm's programs (sacct, squeue, sinfo) where it runs. Skipped unless the source is `slurm`. The
    window begins with the newest job in the lake at the latest, and a day before that: what was late is read
    again. Returns the URIs and the window.
    """

    source_format: Any
    cluster: Any
    lake_uri: Any = None
    nodes_uri: Any = None
    start: Any = None
    end: Any = None

    def run(self, context: Any) -> dict[str, Any]:
        """Read; a Slurm that does not answer is asked again by a retry, and nothing was written."""
        from pipeline.ingest.ingestion import read_accounting
        from pipeline.ingest.slurm_log import AccountingWindow
        from pipeline.training.windows import read_time

        if self.source_format != SLURM:
            raise AirflowSkipException(f"The source is {self.source_format!r}, not a live Slurm.")
        start, end = map(_iso, data_interval(context))
        staged = read_accounting(
            cluster=self.cluster,
            lake_uri=self.lake_uri or settings.lake_uri(),
            window=AccountingWindow(
                read_time(self.start), read_time(self.end or end), interval_start=read_time(start)
            ),
            nodes=not self.nodes_uri,
            progress=self.log_progress(),
        )
        for remark in (staged["nodes"] or {}).get("remarks", ()):
            self.log.warning("%s", remark)
        tell(
            context,
            f"Slurm's accounting of {self.cluster} has {staged['rows']:,} rows from {staged['start']} to "
            f"{staged['end']}.",
            step=True,
        )
        return staged


class IngestLogsOperator(LucidOperator):
    """Read a cluster's log, or make a synthetic one, into the lake's job table.

    Every row is kept, quarantined with a reason or skipped by a named rule; the same input twice gives the
    same table. A scheduled run reads the jobs submitted in its data interval, unless the form names a window.
    Returns the accounting, and the lake's URI.
    """

    source_format: Any
    input_uri: Any = None
    cluster: Any
    lake_uri: Any = None
    nodes_uri: Any = None
    gpus_per_node: Any = 8
    time_zone: Any = None
    start: Any = None
    end: Any = None
    days: Any = 30
    seed: Any = 0
    staged_uris: Any = None
    max_bad_share: Any = MAX_BAD_SHARE
    trace_start: Any = None
    columns: Any = None

    def run(self, context: Any) -> dict[str, Any]:
        """Ingest; returns the accounting."""
        from cluster_logs.ingest import IngestSettings
        from pipeline.ingest.ingestion import ClusterLog, ingest_cluster
        from pipeline.training.windows import read_time

        start, end = map(_iso, data_interval(context))
        report = ingest_cluster(
            ClusterLog(
                self.source_format,
                self.input_uri,
                nodes_uri=self.nodes_uri,
                days=self.days,
                seed=self.seed,
                staged_uris=self.staged_uris,
            ),
            cluster=self.cluster,
            lake_uri=self.lake_uri or settings.lake_uri(),
            settings=IngestSettings(
                time_zone=self.time_zone,
                gpus_per_node=self.gpus_per_node,
                start=read_time(self.start or start),
                end=read_time(self.end or end),
                max_bad_share=float(self.max_bad_share),
                trace_start=read_time(self.trace_start),
                columns=dict(self.columns or {}),
            ),
            progress=self.log_progress(),
        )
        tell_rows(context, str(self.cluster), report, step=False)
        return report


class IngestThroughputOperator(LucidOperator):
    """Read a published throughput table into the lake; skipped when the form names none."""

    input_uri: Any
    cluster: Any
    lake_uri: Any = None
    time_zone: Any = None

    def run(self, context: Any) -> dict[str, Any]:
        """Ingest the table."""
        if not self.input_uri:
            raise AirflowSkipException(
                "No throughput file is named: throughput is counted from the job table."
            )
        from pipeline.ingest.ingestion import ingest_throughput

        report = ingest_throughput(
            input_uri=self.input_uri,
            cluster=self.cluster,
            lake_uri=self.lake_uri or settings.lake_uri(),
            time_zone=self.time_zone,
        )
        tell_rows(context, f"the throughput of {self.cluster}", report)
        return report


class IngestProfilesOperator(LucidOperator):
    """Store measured GPU profiles; when no file is named, keep those that were measured for the cluster, or
    measure the zoo on the simulated GPU.
    """

    singles_uri: Any = None
    pairs_uri: Any = None
    cluster: Any
    lake_uri: Any = None
    seed: Any = 0

    def run(self, context: Any) -> dict[str, Any]:
        """Store the two tables."""
        from dataclasses import asdict

        from pipeline.profiling.profile_store import ingest_profiles

        report = ingest_profiles(
            lake_uri=self.lake_uri or settings.lake_uri(),
            cluster=self.cluster,
            singles_uri=self.singles_uri,
            pairs_uri=self.pairs_uri,
            seed=self.seed,
        )
        origin = "that were measured before stay" if report.kept else "are stored"
        sentence = (
            f"{report.solo_rows} solo profiles and {report.pair_rows} pairs of {self.cluster} {origin}."
        )
        if report.simulated:
            sentence += (
                " They come from the simulated GPU; the release will say so. Of a real log it orders jobs "
                "and lets none share GPUs, until its GPUs are measured or 'Simulated profiles may be "
                "published' is on."
            )
        tell(context, sentence, step=True)
        return asdict(report)


class AnnounceTablesOperator(LucidOperator, is_step=True):
    """Tell the next DAG that all tables are ready and where they are.

    One task announces all of them, after every validation: a failed table starts nothing. Nor does a run by
    the clock: a live cluster's log grows every hour, and models are trained anew when `monitor_live` asks for
    it, or by LUCID_RETRAIN_SCHEDULE.
    """

    cluster: Any
    lake_uri: Any = None
    hold_out_days: Any = 14
    as_of: Any = None
    allow_simulated_profiles: Any = False

    def run(self, context: Any) -> dict[str, Any]:
        """Give each table's event the cluster, the lake and where the log's known part ends."""
        if context["dag_run"].run_type == "scheduled":
            raise AirflowSkipException("A run by the clock starts no retraining.")
        extra = {
            "cluster": self.cluster,
            "lake_uri": self.lake_uri or settings.lake_uri(),
            "hold_out_days": self.hold_out_days,
            "as_of": self.as_of or _iso(data_interval(context)[1]),
            "allow_simulated_profiles": bool(self.allow_simulated_profiles),
        }
        announce(context, extra)
        tell(
            context,
            f"The tables of {self.cluster} are announced: retrain_models and characterise_cluster start.",
            step=True,
        )
        return extra


def _iso(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat()
