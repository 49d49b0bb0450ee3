"""Watch the live release, and ask for a retraining when it no longer fits."""

from typing import Any

from airflow.sdk.exceptions import AirflowSkipException

from lucid_airflow import settings
from lucid_airflow.handover import announce, announcements, take_first
from lucid_airflow.links import MlflowLink, MonitoringLink, ReleaseLink
from lucid_airflow.operators.base import LucidOperator, SkippingOperator
from lucid_airflow.run_results import tell


class MonitorReleaseOperator(SkippingOperator, multiple_outputs=True):
    """Make one monitoring pass over the champion; what follows is skipped unless it asks for a retraining.

    `cluster`: empty: every cluster that has a champion, one after another in runs of their own. Without a
    champion there is nothing to watch: the task is skipped, for the schedule may be older than the first
    release.
    """

    operator_extra_links = (ReleaseLink(), MlflowLink(), MonitoringLink())

    cluster: Any = None
    window_days: Any = None
    as_of: Any = None
    monitor_settings: Any = None
    may_request: Any = True
    live: Any = None

    def run(self, context: Any) -> dict[str, Any]:
        """Watch; returns the decision, its reasons and what a retraining is told (None: not requested)."""
        from pipeline.monitoring.live import LiveRecords
        from pipeline.monitoring.records import PassRequest, make_pass
        from pipeline.monitoring.rules import monitor_settings
        from pipeline.release.current_release import clusters_with_champion
        from pipeline.training.windows import read_as_of

        tracking_uri, lake_uri = settings.tracking_uri(), settings.lake_uri()
        live_clusters = clusters_with_champion(tracking_uri)
        wanted = [self.cluster] if self.cluster else live_clusters
        announced = announcements(context, ()) or [
            {"cluster": name} for name in wanted if name in live_clusters
        ]
        if not announced:
            raise AirflowSkipException("There is no champion yet: nothing to watch.")
        cluster = str(take_first(context, announced, "cluster")[0]["cluster"])
        self.check_right(context, cluster)
        values = {**settings.monitor_settings(), **(self.monitor_settings or {})}
        if self.window_days is not None:
            values["window_days"] = self.window_days
        live, token_file = settings.live_scheduler()
        done = make_pass(
            lake_uri=lake_uri,
            tracking_uri=tracking_uri,
            pages_dir=settings.pages_dir("monitoring"),
            cluster=cluster,
            settings=monitor_settings(values),
            asked=PassRequest(
                as_of=read_as_of(self.as_of or settings.monitor_as_of()),
                may_request=bool(self.may_request),
                pass_id=context["run_id"],
            ),
            live=LiveRecords(
                self.live or live,
                settings.live_dir(),
                # The deployment's secret goes to the deployment's address alone.
                token_file if self.live in (None, "", live) else None,
            ),
            progress=self.log_progress(),
        )
        report = done.report
        for finding in report.findings:
            self.log.info("%s: %s", finding.level, finding.sentence)
        decision = (
            f"Release {report.release_version} of {cluster}: {report.decision}. {done.retraining.sentence}"
        )
        self.about_release(report.cluster, report.release_version)
        self.mlflow_path, self.monitoring_path = done.mlflow_path, done.page
        tell(context, " ".join([decision, *report.reasons]), page=f"lucid/monitoring/{done.page}")
        result = {
            "cluster": report.cluster,
            "release_version": report.release_version,
            "decision": str(report.decision),
            "reasons": list(report.reasons),
            "page": done.page,
            "retraining": {
                "cluster": report.cluster,
                "lake_uri": lake_uri,
                "hold_out_days": done.retraining.hold_out_days,
                "as_of": report.window.end.isoformat(),
                "reason": " ".join(report.reasons),
            },
        }
        if not done.retraining.requested:
            self.skip_what_follows(context, result)
        return result


class RequestRetrainingOperator(LucidOperator, is_step=True):
    """Announce that the models should be retrained, and until when the log is known."""

    retraining: Any

    def run(self, context: Any) -> dict[str, Any]:
        """Announce; returns what the retraining is told."""
        self.log.warning("A retraining is requested: %s", self.retraining["reason"])
        announce(context, self.retraining)
        tell(
            context,
            f"A retraining of {self.retraining['cluster']} is requested: retrain_models starts.",
            step=True,
        )
        return dict(self.retraining)
