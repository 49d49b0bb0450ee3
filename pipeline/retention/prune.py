"""One pass over all that an installation keeps: what is past its retention goes, and is counted.

| kind | where | setting |
| --- | --- | --- |
| releases, models, runs | MLflow | challenger_days, published_days, model_days, run_days |
| log_days | the lake's tables by day | lake_days |
| quarantine | the lake's refused rows | quarantine_days |
| work_files | sweeps, searches, replayed plans, staged accounting in the lake | work_days |
| pages | the state folder | page_days |
| task_logs | Airflow's folder of logs | airflow_days |

What lies in databases is cleaned beside them, by Airflow's and MLflow's own commands
(`local_stack/upkeep.py`, and services of docker-compose.yml). What bounds itself (logs of processes, the live
scheduler's state, what-ifs, uploads) is not looked at.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from cluster_logs.removal import Expired, expire_days, expire_quarantine, expire_work_files, lake_clusters
from foundation.errors import LucidError
from foundation.parts import installed_parts
from foundation.retention_settings import RetentionSettings
from lucid_models.mlflow_server import is_unwritten
from lucid_models.releases.building import RELEASE_EXPERIMENT
from lucid_models.releases.expiry import expire_registry
from lucid_models.releases.lifecycle import VALIDATION_EXPERIMENT
from lucid_models.releases.studies import STUDY_EXPERIMENT
from lucid_models.training_log import TRAINING_EXPERIMENT
from pipeline.monitoring.records import EXPERIMENT as MONITORING
from pipeline.planning.report import EXPERIMENT as PLANS
from pipeline.retention.folders import expire_pages, expire_task_logs
from pipeline.studies.sweeps.report import EXPERIMENT as EVALUATIONS
from pipeline.studies.tuning.report import EXPERIMENT as TUNING

_OWN_EXPERIMENTS = (
    *(TRAINING_EXPERIMENT, RELEASE_EXPERIMENT, VALIDATION_EXPERIMENT, STUDY_EXPERIMENT),
    *(MONITORING, PLANS, EVALUATIONS, TUNING),
)


@dataclass(frozen=True)
class Installation:
    """Where an installation keeps things; None: not here."""

    tracking_uri: str
    lake_uri: str
    state_dir: Path | None
    task_log_dir: Path | None = None


@dataclass(frozen=True)
class Pruned:
    """What stays and what goes of a kind. `bytes` None: freed later, by MLflow's `gc`. `problem`: why it was
    not looked at to its end.
    """

    kind: str
    kept: int = 0
    removed: int = 0
    bytes: int | None = 0
    remarks: tuple[str, ...] = ()
    problem: str | None = None


def experiments() -> tuple[str, ...]:
    """Return the experiments with runs that may be removed: those of any other are not ours to delete."""
    return (*_OWN_EXPERIMENTS, *(name for part in installed_parts() for name in part.mlflow_experiments))


def prune(
    installation: Installation,
    settings: RetentionSettings,
    *,
    now: datetime | None = None,
    dry_run: bool = False,
) -> list[Pruned]:
    """Remove what is past its retention at `now` (default: the clock); `dry_run`: only count it.

    What fails is told with its kind, and the other kinds go on.
    """
    moment = datetime.now(UTC) if now is None else now
    return [
        *_in_registry(installation, settings, moment, dry_run),
        *_in_lake(installation, settings, moment, dry_run),
        *_in_folders(installation, settings, moment, dry_run),
    ]


def _in_registry(
    installation: Installation, settings: RetentionSettings, now: datetime, dry_run: bool
) -> list[Pruned]:
    if is_unwritten(installation.tracking_uri):
        return []
    try:
        found = expire_registry(
            installation.tracking_uri, settings, experiments=experiments(), now=now, dry_run=dry_run
        )
    except LucidError as error:
        return [Pruned(kind, bytes=None, problem=str(error)) for kind in ("releases", "models", "runs")]
    return [Pruned(each.kind, each.kept, each.removed, None, each.remarks) for each in found]


def _in_lake(
    installation: Installation, settings: RetentionSettings, now: datetime, dry_run: bool
) -> Iterator[Pruned]:
    lake_uri = installation.lake_uri
    keep_days = settings.lake_days
    asked = {
        "log_days": None
        if keep_days is None
        else partial(expire_days, lake_uri, keep_days=keep_days, dry_run=dry_run),
        "quarantine": _until(partial(expire_quarantine, lake_uri), now, settings.quarantine_days, dry_run),
        "work_files": _until(partial(expire_work_files, lake_uri), now, settings.work_days, dry_run),
    }
    for kind, expire in asked.items():
        if expire is not None:
            yield _counted(kind, expire, lambda: lake_clusters(lake_uri))


def _in_folders(
    installation: Installation, settings: RetentionSettings, now: datetime, dry_run: bool
) -> Iterator[Pruned]:
    asked = (
        ("pages", expire_pages, installation.state_dir, settings.page_days),
        ("task_logs", expire_task_logs, installation.task_log_dir, settings.airflow_days),
    )
    for kind, expire, folder, days in asked:
        until = _until(expire, now, days, dry_run)
        if folder is not None and until is not None:
            yield _counted(kind, until, lambda folder=folder: [folder])  # type: ignore[misc]


def _until(
    expire: Callable[..., Expired], now: datetime, days: float | None, dry_run: bool
) -> Callable[..., Expired] | None:
    """What removes all from before so many days; None: for ever."""
    return None if days is None else partial(expire, before=now - timedelta(days=days), dry_run=dry_run)


def _counted(kind: str, expire: Callable[..., Expired], places: Callable[[], Sequence[str | Path]]) -> Pruned:
    """Remove in one place after another, and count; a place that cannot be done does not stop the others."""
    total, problems = Expired(), []
    try:
        for place in places():
            try:
                total += expire(place)
            except (LucidError, OSError) as error:
                problems.append(str(error))
    except (LucidError, OSError) as error:
        problems.append(str(error))
    return Pruned(
        kind, total.kept, total.removed, total.freed_bytes, problem=" ".join(problems) if problems else None
    )
