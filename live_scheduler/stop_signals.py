"""How a live scheduler is told to end: by SIGTERM or SIGINT."""

import logging
import signal
import threading
from types import FrameType

logger = logging.getLogger("lucid.live")


def stop_when_told() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stop = threading.Event()

    def leave(number: int, _: FrameType | None) -> None:
        logger.info("told to end by %s", signal.Signals(number).name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    return stop
