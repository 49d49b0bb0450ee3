"""The HTTP service of a live scheduler, started and stopped with it: token, endpoint, metrics."""

import logging
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from live_scheduler.live_settings import LiveSettings
from live_scheduler.service.metrics import ServiceMetrics
from live_scheduler.service.operations import Operations
from live_scheduler.service.state_files import remove_endpoint, token_of, write_endpoint

if TYPE_CHECKING:
    from live_scheduler.service.serving import WebServer

_log = logging.getLogger(__name__)


class LiveService:
    """Answers for people and other schedulers, while the block runs.

    `metrics` is a watcher of the daemon: add it to `Daemon.watchers`. A port of -1 is not served.
    """

    def __init__(self, operations: Operations, settings: LiveSettings, folder: Path) -> None:
        """Take the ports; raises BadInputError when one is taken or the token cannot be used."""
        self._folder, self._cluster = folder, settings.cluster
        token = token_of(folder)
        self.metrics = ServiceMetrics(operations)
        self.web = _web(operations, self.metrics, token, settings.http_port)

    def __enter__(self) -> Self:
        if self.web is not None:
            self.web.start()
        try:
            write_endpoint(self._folder, cluster=self._cluster, http=self.web.url if self.web else None)
        except OSError as error:  # the scheduler matters more than its address
            _log.error("Where the service listens cannot be written down: %s", error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        remove_endpoint(self._folder)
        if self.web is not None:
            try:
                self.web.stop()
            except Exception:  # the scheduler ends in order, whatever its service does
                _log.exception("the service did not stop")


def _web(operations: Operations, metrics: ServiceMetrics, token: str, port: int) -> "WebServer | None":
    if port < 0:
        return None
    # FastAPI takes longer to import than much of the rest: it is imported where it serves.
    from live_scheduler.service.serving import WebServer
    from live_scheduler.service.web import web_app

    return WebServer(web_app(operations, metrics, token), port)
