"""`lucid live serve`: the decision service of a cluster that pushes its state, without an adapter."""

import gc
import threading
from collections.abc import Callable
from pathlib import Path

from foundation.errors import BadInputError
from foundation.process_lock import ProcessLock
from live_scheduler.client import ReleaseClient
from live_scheduler.daemon import FIRST_POLL_S, Daemon
from live_scheduler.forecast.forecaster import Forecaster
from live_scheduler.forecast.submission_predictor import SubmissionPredictor, other_starts_of
from live_scheduler.hindsight.decision_log import DECISIONS_FILE, DecisionLog
from live_scheduler.hindsight.regret_job import RegretJob
from live_scheduler.limit_memory import LimitMemory
from live_scheduler.live_settings import LiveSettings
from live_scheduler.safety.dead_mans_switch import DAEMON_LOCK
from live_scheduler.service.expectation import ExpectedTimes
from live_scheduler.service.hosting import LiveService
from live_scheduler.service.pushed_cluster import PushedCluster, PushedOperations


def serve_pushed(
    client: ReleaseClient,
    settings: LiveSettings,
    folder: Path,
    stop: threading.Event,
    ready: Callable[[LiveService], None] = lambda _: None,
) -> None:
    """Serve until `stop` is set; `ready` is called with the running services.

    Raises BadInputError when another daemon has the state folder, or a port is taken.
    """
    lock = ProcessLock(folder / DAEMON_LOCK)
    if not lock.acquire():
        raise BadInputError(
            f"A daemon runs with the state {folder} already.", remedy="Stop it, or give another cluster name."
        )
    with lock:
        cluster = PushedCluster(settings.cluster)
        daemon = Daemon(cluster, client, settings, folder)
        forecaster = Forecaster(daemon)
        submission_predictor = SubmissionPredictor(forecaster, other_starts_of(daemon))
        expected = ExpectedTimes(forecaster, submission_predictor, LimitMemory(daemon))
        operations = PushedOperations(daemon, cluster, expected)
        looking_back = RegretJob(folder)
        try:
            with LiveService(operations, settings, folder) as service:
                daemon.watchers += [
                    service.metrics,
                    DecisionLog(folder / DECISIONS_FILE),
                    looking_back,
                    submission_predictor,
                ]
                submission_predictor.start(stop)
                polled = threading.Event()
                poller = threading.Thread(
                    target=_follow, args=(client, settings.release_interval_s, stop, polled), daemon=True
                )
                poller.start()
                polled.wait(FIRST_POLL_S)
                ready(service)
                stop.wait()
        finally:
            looking_back.close()
            forecaster.close()


def _follow(client: ReleaseClient, interval_s: float, stop: threading.Event, polled: threading.Event) -> None:
    """Look for releases; a new one stays, so that no collection of garbage looks through it again."""
    while True:
        before = client.current
        if client.poll() is not before or not gc.get_freeze_count():
            gc.collect()
            gc.freeze()
        polled.set()
        if stop.wait(interval_s):
            return
