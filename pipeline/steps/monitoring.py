"""Steps that watch the live release, and ask for a retraining when it no longer fits."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foundation.site import Site
from foundation.steps import Done, NothingToDo, StepRun
from pipeline.monitoring.live import LiveRecords
from pipeline.monitoring.records import PassRequest, make_pass
from pipeline.monitoring.rules import monitor_settings as checked_settings
from pipeline.release.current_release import clusters_with_champion
from pipeline.training.windows import read_as_of

_log = logging.getLogger(__name__)


def monitor_release(
    *,
    run: StepRun,
    site: Site,
    state_dir: Path,
    live_scheduler: tuple[str | None, Path | None],
    live_dir: Path,
    monitor_settings: Mapping[str, Any],
    monitor_as_of: str | None,
    window_days: float | None = None,
    as_of: str | None = None,
    settings: Mapping[str, Any] | None = None,
    may_request: bool = True,
    live: str | None = None,
) -> Done:
    """Make one monitoring pass over the champion; the run ends unless it asks for a retraining.

    Without a cluster: every cluster that has a champion, one after another in runs of their own. Without a
    champion there is nothing to watch: the schedule may be older than the first release. `settings`: the
    form's thresholds, before those of the installation (`monitor_settings`).

    Returns the decision, its reasons and what a retraining is told (None: not requested).
    """
    live_clusters = clusters_with_champion(site.registry)
    wanted = [site.cluster] if site.cluster else live_clusters
    announced = run.announced() or [{"cluster": name} for name in wanted if name in live_clusters]
    if not announced:
        raise NothingToDo("There is no champion yet: nothing to watch.")
    watched = str(run.take_first(announced, "cluster")[0]["cluster"])
    run.check_right(watched)
    values = {**monitor_settings, **(settings or {})}
    if window_days is not None:
        values["window_days"] = window_days
    own_live, token_file = live_scheduler
    done = make_pass(
        site.of(watched),
        pages_dir=state_dir / "monitoring",
        settings=checked_settings(values),
        asked=PassRequest(
            as_of=read_as_of(as_of or monitor_as_of), may_request=bool(may_request), pass_id=run.run_id
        ),
        live=LiveRecords(
            live or own_live,
            live_dir,
            # The deployment's secret goes to the deployment's address alone.
            token_file if live in (None, "", own_live) else None,
        ),
    )
    report = done.report
    for finding in report.findings:
        _log.info("%s: %s", finding.level, finding.sentence)
    run.link_to(release=(report.cluster, report.release_version))
    decision = f"Release {report.release_version} of {watched}: {report.decision}. {done.retraining.sentence}"
    value = {
        "cluster": report.cluster,
        "release_version": report.release_version,
        "decision": str(report.decision),
        "reasons": list(report.reasons),
        "page": done.page,
        "retraining": {
            "cluster": report.cluster,
            "lake_uri": site.lake,
            "hold_out_days": done.retraining.hold_out_days,
            "as_of": report.window.end.isoformat(),
            "reason": " ".join(report.reasons),
        },
    }
    return Done(
        value,
        " ".join([decision, *report.reasons]),
        page=f"lucid/monitoring/{done.page}",
        mlflow_path=done.mlflow_path,
        ends_run=not done.retraining.requested,
    )


def request_retraining(*, retraining: Mapping[str, Any]) -> Done:
    """Announce that the models should be retrained, and until when the log is known."""
    _log.warning("A retraining is requested: %s", retraining["reason"])
    sentence = f"A retraining of {retraining['cluster']} is requested: retrain_models starts."
    return Done(dict(retraining), sentence, announced=retraining, on_the_way=True)
