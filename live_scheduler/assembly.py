"""Puts a live scheduler together, and runs it until a signal ends it."""

import logging
from collections.abc import Callable
from pathlib import Path

from live_scheduler.adapters import OpenedCluster, adapter_kind
from live_scheduler.beliefs import trust_of
from live_scheduler.capability import capabilities
from live_scheduler.client import PollLimits, ReleaseClient
from live_scheduler.daemon import Daemon
from live_scheduler.deciding.decision_maker import DecisionSources, Estimator
from live_scheduler.deciding.live_pools import ProfileSource
from live_scheduler.forecast.advice import Advisor
from live_scheduler.forecast.forecaster import Forecaster
from live_scheduler.forecast.submission_predictor import SubmissionPredictor, other_starts_of
from live_scheduler.hindsight.decision_log import DECISIONS_FILE, DecisionLog
from live_scheduler.hindsight.regret_job import RegretJob
from live_scheduler.limit_memory import LimitMemory
from live_scheduler.live_settings import LiveSettings
from live_scheduler.memory.online_state import OnlineState
from live_scheduler.safety.safety_net import SafetyNet
from live_scheduler.service.expectation import ExpectedTimes
from live_scheduler.service.hosting import LiveService
from live_scheduler.service.operations import Operations
from live_scheduler.service_manager import ServiceManager, stop_when_told
from lucid_models.signing.trust import UNSIGNED

logger = logging.getLogger("lucid.live")

EstimatorOf = Callable[[OnlineState], Estimator]

# Below the state folder: the last known good release.
RELEASES_DIR = "releases"


def assemble(
    cluster: OpenedCluster,
    client: ReleaseClient,
    settings: LiveSettings,
    folder: Path,
    *,
    estimator_of: EstimatorOf | None = None,
    profile_of: ProfileSource | None = None,
) -> Daemon:
    """Return the daemon with everything that belongs to it; nothing runs yet.

    `estimator_of` and `profile_of` as in DecisionSources.
    """
    safety = SafetyNet(cluster.adapter, settings, folder)
    daemon = Daemon(
        cluster.adapter,
        client,
        settings,
        folder,
        safety=safety,
        stages=cluster.stages,
        sources=DecisionSources(profile_of, cluster.profiling, estimator_of),
    )
    adapter = adapter_kind(settings.adapter)
    for name in settings.tables:
        part = capabilities()[name]
        control = adapter.open_for(part, settings, folder)
        daemon.part_stages[name] = part.stage(control, settings, folder, safety.lease)
    daemon.watchers += [DecisionLog(folder / DECISIONS_FILE), RegretJob(folder)]
    return daemon


def run_until_told(daemon: Daemon) -> None:
    """Run the daemon and its services until SIGTERM or SIGINT, and give everything back then.

    Raises BadInputError where another daemon lives, nothing can be kept, or a port is taken.
    """
    stop = stop_when_told()
    safety = daemon.safety
    if safety is not None:
        safety.take()
    manager = ServiceManager()
    forecaster = Forecaster(daemon)
    submission_predictor = SubmissionPredictor(forecaster, other_starts_of(daemon))
    advisor = Advisor(daemon.settings, forecaster, submission_predictor.predictions.of)
    daemon.stages.append(advisor)
    operations = Operations(daemon, ExpectedTimes(forecaster, submission_predictor, LimitMemory(daemon)))
    try:
        with LiveService(operations, daemon.settings, daemon.state_dir) as service:
            daemon.watchers += [service.metrics, manager, advisor, submission_predictor]
            forecaster.start(stop)
            submission_predictor.start(stop)
            daemon.run(stop)
    finally:
        manager.ending()
        forecaster.close()
        if safety is not None:
            logger.info("%s", safety.leave().describe())


def open_releases(tracking_uri: str, settings: LiveSettings, folder: Path, state_dir: Path) -> ReleaseClient:
    """Return the client that follows the settings' cluster and alias, its last known good release at hand.

    It keeps its releases in `folder`; in `state_dir` lies the trust file, unless the settings name another.
    """
    return ReleaseClient(
        tracking_uri,
        settings.release,
        folder / RELEASES_DIR,
        cluster=settings.cluster,
        trust=trust_of(settings.trust or None, state_dir) or UNSIGNED,
        limits=PollLimits(poll_s=settings.release_limit_s, stale_after_polls=settings.stale_after_polls),
    )
