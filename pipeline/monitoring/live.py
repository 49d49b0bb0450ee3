"""How a live scheduler did: its estimates at submission beside what happened, and its regret.

From its state folder on the machine where it runs: the journal says what happened, the decision log what was
believed of each job when it was first ranked. Over HTTP only what it tells of its last look back is known.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.lake import Lake
from cluster_logs.node_table import owners_of_rows
from foundation.errors import LucidError, NotFoundError
from foundation.site import Site
from live_scheduler.daemon import JOURNAL_FILE
from live_scheduler.deciding.live_policies import live_policy, settings_in_force
from live_scheduler.forecast.submission_predictions import PredictionErrorSummary
from live_scheduler.hindsight.decision_log import DECISIONS_FILE, estimates_at_submission, read_lines
from live_scheduler.hindsight.regret_job import WARM_UP_S, StartAgreement, start_agreement
from live_scheduler.hindsight.replayed_window import (
    Hindsight,
    LivedJob,
    MeanTimes,
    Regret,
    judge_window,
    lived_jobs,
)
from live_scheduler.live_settings import LiveSettings
from live_scheduler.memory.journal import Journal
from lucid_models.duration.job_columns import MODEL_FACTS
from lucid_models.evaluation.baselines import duration_baselines
from lucid_models.evaluation.measures import duration_metrics
from pipeline.monitoring.data import DAY_S, MonitoredWindow
from pipeline.monitoring.errors import NAIVE_DURATION, log_error
from pipeline.monitoring.forecast_errors import Change, change_over_days, clearly_above
from pipeline.monitoring.live_predictions import PredictionGroup, PredictionHealth, prediction_health
from pipeline.monitoring.rules import Finding, MonitorSettings, Urgency

if TYPE_CHECKING:
    from live_scheduler.service.schema import Status

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LiveErrors:
    """Estimates at submission beside what happened, over all jobs or a virtual cluster's."""

    name: str
    jobs: int
    mae_log10: float
    naive_mae_log10: float
    kendall_tau: float | None
    coverage_p50: float


@dataclass(frozen=True)
class LiveHealth:
    """What a live scheduler's own records say; `source` is its state folder or its address.

    `errors` are of the watched release's estimates only; `hindsight` and `agreement` are of all that happened
    in the window. `against_validation` and `against_naive` as in `DurationHealth`.
    """

    source: str
    errors: LiveErrors | None = None
    virtual_clusters: tuple[LiveErrors, ...] = ()
    naive: str = NAIVE_DURATION[0]
    expected: float | None = None
    against_validation: Change | None = None
    against_naive: Change | None = None
    hindsight: Hindsight | None = None
    agreement: StartAgreement | None = None
    predictions: PredictionHealth | None = None
    note: str = ""


@dataclass(frozen=True)
class LiveRecords:
    """Where a live scheduler's records are: at an address or in its state folder.

    Without either they are the cluster's in `live_dir`, if there are any. `token_file` is for the address.
    """

    given: str | None = None
    live_dir: Path | None = None
    token_file: Path | None = None

    def of(self, cluster: str) -> str | None:
        """Return where to ask about a cluster's live scheduler; None: it has none."""
        if self.given:
            return self.given
        folder = None if self.live_dir is None else self.live_dir / cluster
        return str(folder) if folder is not None and (folder / DECISIONS_FILE).exists() else None


NO_RECORDS = LiveRecords()


def live_health(
    site: Site,
    source: str,
    *,
    release: Any,
    window: MonitoredWindow,
    settings: MonitorSettings,
    token_file: Path | None = None,
) -> LiveHealth:
    """Ask a live scheduler's records; `release` is a `WatchedRelease`. Trouble is said in `note`."""
    try:
        if source.startswith(("http://", "https://")):
            return _as_told(source, token_file)
        return _as_recorded(site, Path(source), release, window, settings)
    except LucidError as error:
        return LiveHealth(source, note=f"not measured: {error}")


def live_findings(health: LiveHealth | None, settings: MonitorSettings) -> Iterator[Finding]:
    """What live errors and regret ask for: clear ones for a retraining or a rollback, others for a look."""
    if health is None:
        return
    errors = health.errors
    if errors is not None and health.expected and clearly_above(health.against_validation):
        limit = settings.error_factor * health.expected
        if errors.mae_log10 > limit:
            sentence = (
                f"The live scheduler's estimates at submission are off by {errors.mae_log10:.3f} in log10 of "
                f"run time; at validation it was {health.expected:.3f}."
            )
            yield Finding(Urgency.RETRAIN, "live", "error", sentence, errors.mae_log10, limit)
    if errors is not None and clearly_above(health.against_naive):
        sentence = (
            f"The naive rival ({health.naive}) would have done better at submission than the live scheduler: "
            f"{errors.naive_mae_log10:.3f} against {errors.mae_log10:.3f} in log10 of run time."
        )
        yield Finding(
            Urgency.RETRAIN, "live", "worse than naive", sentence, errors.mae_log10, errors.naive_mae_log10
        )
    past = health.hindsight
    if past is None:
        return
    regret, limit_s = past.against_backfill, settings.regret_pct / 100 * past.backfill.mean_jct_s
    if regret.point_s <= limit_s:
        return
    worse = (
        f"The live order made jobs wait longer than first come, first served with backfilling would have: "
        f"mean JCT {past.live.mean_jct_s:,.0f} s against {past.backfill.mean_jct_s:,.0f} s, in a replay of "
        f"{past.jobs:,} jobs"
    )
    if regret.reliable and regret.low_s is not None and regret.low_s > 0:
        advice = f"{worse}: consider a rollback, or the mode observe."
        yield Finding(Urgency.RETRAIN, "live", "regret", advice, regret.point_s, limit_s)
    else:
        yield Finding(Urgency.WATCH, "live", "regret", f"{worse}; it may be chance.", regret.point_s, limit_s)


def _as_recorded(
    site: Site, folder: Path, release: Any, window: MonitoredWindow, settings: MonitorSettings
) -> LiveHealth:
    log = folder / DECISIONS_FILE
    if not log.exists():
        raise NotFoundError(f"No live scheduler has decided anything in {folder}.")
    start_s, end_s = window.start.timestamp(), window.end.timestamp()
    sights = estimates_at_submission(log)
    jobs = lived_jobs(Journal(folder / JOURNAL_FILE).read(start_s - WARM_UP_S), sights)
    version_of = {key: sight.release_version for key, sight in sights.items()}
    judged = [
        job
        for job in jobs
        if job.end_time_s is not None
        and start_s <= job.end_time_s < end_s
        and job.estimated_duration_s is not None
        and version_of[job.job_id, job.submit_time_s] == release.version
    ]
    health = LiveHealth(
        str(folder),
        expected=release.validation["duration"].get("mae_log10"),
        agreement=start_agreement(log, start_s),
        predictions=prediction_health(folder, release.version, release.gate_errors, start_s, end_s, settings),
    )
    health = _with_errors(health, judged, release, settings)
    policy = next((line.policy for line in reversed(list(read_lines(log))) if line.policy), "")
    live = settings_in_force(LiveSettings(site.cluster, policy=policy), release.models.manifest)
    try:
        hindsight = judge_window(
            jobs,
            start_s=start_s,
            end_s=end_s,
            nodes=_nodes(site),
            policy=lambda: live_policy(live),
            policy_name=live.policy,
        )
    except LucidError as error:
        note = "; ".join(part for part in (health.note, f"regret: not measured: {error}") if part)
        return replace(health, note=note)
    return replace(health, hindsight=hindsight)


def _with_errors(
    health: LiveHealth, jobs: list[LivedJob], release: Any, settings: MonitorSettings
) -> LiveHealth:
    if not jobs:
        return replace(health, note="errors: no job that this release ranked has ended in the window")
    frame = _frame(jobs)
    rivals = duration_baselines(release.models.duration.features_causal(frame))
    naive = next(name for name in NAIVE_DURATION if name in rivals)
    truth = frame["duration_s"].to_numpy(dtype=np.float64)
    table = pd.DataFrame(
        {
            "virtual_cluster": frame["virtual_cluster"],
            "gpus": np.maximum(frame["gpus"].to_numpy(dtype=np.float64), 1.0),
            "truth": truth,
            "p50": frame["believed_s"],
            "error": log_error(frame["believed_s"].to_numpy(dtype=np.float64), truth),
            "naive_error": log_error(rivals[naive], truth),
        }
    )
    days = np.array([int(job.submit_time_s // DAY_S) for job in jobs])
    enough = len(jobs) >= settings.least_jobs and len(np.unique(days)) >= settings.least_days
    error, naive_error = (table[name].to_numpy(dtype=np.float64) for name in ("error", "naive_error"))
    expected = np.full(len(table), health.expected or 0.0)
    groups = [
        _group(str(name), part)
        for name, part in table.groupby("virtual_cluster", sort=True)
        if len(part) >= settings.least_jobs_of_a_group
    ]
    return replace(
        health,
        errors=_group("all", table),
        virtual_clusters=tuple(groups),
        naive=naive,
        against_validation=change_over_days(error, expected, days, settings)
        if enough and health.expected is not None
        else None,
        against_naive=change_over_days(error, naive_error, days, settings) if enough else None,
        note=""
        if enough
        else f"errors: too few to decide: {len(jobs):,} jobs of {len(np.unique(days))} days",
    )


def _as_told(url: str, token_file: Path | None) -> LiveHealth:
    """What the service's status tells of its last look back."""
    from live_scheduler.service.asking import open_caller

    with open_caller(Path(), url=url, token_file=token_file) as caller:
        status = caller.status()
    past = status.hindsight
    if past is None:
        note = "not measured: the live scheduler has not looked back yet"
        return LiveHealth(url, predictions=_told_predictions(status), note=note)

    def regret(
        point_s: float, other_jct_s: float, low_s: float | None = None, high_s: float | None = None
    ) -> Regret:
        relative = 100 * point_s / other_jct_s if other_jct_s > 0 else None
        return Regret(point_s, low_s, high_s, relative, past.reliable)

    return LiveHealth(
        url,
        hindsight=Hindsight(
            past.start_s,
            past.end_s,
            status.policy,
            past.jobs,
            0,
            {},
            MeanTimes(past.measured_jct_s),
            MeanTimes(past.backfill_jct_s),
            MeanTimes(past.live_jct_s),
            MeanTimes(past.true_durations_jct_s),
            regret(
                past.regret_against_backfill_s,
                past.backfill_jct_s,
                past.regret_against_backfill_low_s,
                past.regret_against_backfill_high_s,
            ),
            regret(past.regret_against_true_durations_s, past.true_durations_jct_s),
            past.log10_error,
            (),
        ),
        agreement=StartAgreement(status.starts, status.agreed_starts, None, 0),
        predictions=_told_predictions(status),
        note="errors: only the state folder of the live scheduler tells",
    )


def _told_predictions(told: "Status") -> PredictionHealth | None:
    groups = [
        PredictionGroup(
            each.policy,
            each.release_version,
            each.virtual_cluster,
            PredictionErrorSummary(
                each.jobs,
                each.mean_error_pct,
                each.median_error_pct,
                each.p99_error_pct,
                each.by_told,
                each.by_p90,
                each.late,
            ),
        )
        for each in told.predictions
    ]
    return PredictionHealth(tuple(groups), ()) if groups else None


def _frame(jobs: list[LivedJob]) -> pd.DataFrame:
    """The jobs as the duration model reads a log, with what was believed of them."""

    def times(values: list[float]) -> pd.DatetimeIndex:
        return pd.to_datetime(np.array(values) * 1e6, unit="us", utc=True)

    ends = [job.end_time_s or 0.0 for job in jobs]
    return pd.DataFrame(
        {
            **{fact.name: [job.facts.get(fact.name) for job in jobs] for fact in MODEL_FACTS},
            "job_id": [job.job_id for job in jobs],
            "virtual_cluster": [job.virtual_cluster for job in jobs],
            "gpus": [job.gpus for job in jobs],
            "submit_time": times([job.submit_time_s for job in jobs]),
            "start_time": times([job.start_time_s for job in jobs]),
            "end_time": times(ends),
            "duration_s": [end - job.start_time_s for job, end in zip(jobs, ends, strict=True)],
            "believed_s": [job.estimated_duration_s for job in jobs],
        }
    )


def _nodes(site: Site) -> list[tuple[str, int, list[str]]]:
    recorded = Lake(site.lake).read_nodes(site.cluster)
    rows = zip(owners_of_rows(recorded), recorded["nodes"], recorded["gpus_per_node"], strict=True)
    return [
        (f"{'+'.join(owners)} {row} {number}", int(gpus), owners)
        for row, (owners, nodes, gpus) in enumerate(rows)
        for number in range(int(nodes))
    ]


def _group(name: str, table: pd.DataFrame) -> LiveErrors:
    truth, size = (table[column].to_numpy(dtype=np.float64) for column in ("truth", "gpus"))
    tau = duration_metrics(truth, table["p50"].to_numpy(dtype=np.float64), size)["kendall_tau"]
    return LiveErrors(
        name,
        len(table),
        float(table["error"].mean()),
        float(table["naive_error"].mean()),
        tau if np.isfinite(tau) else None,
        float((table["truth"] <= table["p50"]).mean()),
    )


def window_of(past: Hindsight) -> str:
    """When a look back was about, in words."""
    start, end = (datetime.fromtimestamp(at_s, UTC) for at_s in (past.start_s, past.end_s))
    return f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"
