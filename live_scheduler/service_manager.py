"""Tells systemd how the live scheduler is: ready, alive at each pass, ending (sd_notify(3)).

A pass that failed counts as alive: what cannot be reached is not there sooner for a restart of this. Only a
pass that never ends makes systemd start the daemon anew. It ends the daemon by SIGTERM (`stop_when_told`).
"""

import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Mapping
from types import FrameType

from live_scheduler.live_view import LiveView

logger = logging.getLogger("lucid.live")


class ServiceManager:
    """The service manager that started this process, if one did; a watcher of the daemon's passes."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        """Without NOTIFY_SOCKET nothing is ever said."""
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address

    def passed(self, view: LiveView) -> None:
        """Say that the daemon is alive, and how it is."""
        waiting = len(view.decision.ranked) if view.decision is not None else 0
        how = view.problem or f"{view.settings.mode}: {waiting} jobs ranked by {view.release.release}"
        self._say("READY=1\nWATCHDOG=1", how)

    def ending(self) -> None:
        """Say that the daemon gives everything back and ends."""
        self._say("STOPPING=1", "gives everything back")

    def _say(self, state: str, status: str) -> None:
        if not self._address:
            return
        line = " ".join(status.split())[:500]
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as there:
            there.sendto(f"{state}\nSTATUS={line}".encode(), self._address)


def stop_when_told() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stop = threading.Event()

    def leave(number: int, _: FrameType | None) -> None:
        logger.info("told to end by %s", signal.Signals(number).name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    return stop
