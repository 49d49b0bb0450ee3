"""Ends the daemon, gives jobs back, and what parts have changed (`lucid live restore`)."""

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, Self, TypeVar

from foundation.errors import BadInputError, ServiceUnavailableError
from foundation.process_lock import ProcessLock, held_elsewhere, holder
from live_scheduler.adapter import ClusterAdapter, Restorer
from live_scheduler.adapters import RestorableCluster, adapter_kind
from live_scheduler.capability import GivenBack, capabilities, with_way_back
from live_scheduler.live_settings import LiveSettings
from live_scheduler.safety.dead_mans_switch import (
    DAEMON_LOCK,
    WATCH_LOG,
    Say,
    Watch,
    lease_to_restore,
    restore_lock,
    start_switch,
)
from live_scheduler.safety.heartbeat import HEARTBEAT_FILE, read_heartbeat, write_heartbeat
from live_scheduler.safety.restoring import Restoration, longest_s, next_look_s, restore, watch_words
from live_scheduler.safety.touched import TouchedJobs
from live_scheduler.write_lease import WriteLease

# A daemon that gets SIGTERM gives everything back itself first.
_END_LIMIT_S = 40.0
_PAUSE_S, _LONG_PAUSE_S = 0.2, 1.0


@dataclass(frozen=True)
class RestoreResult:
    """What was restored; `ended_daemon` is the process id of the daemon that ran, if one did.

    `unsettled` says what is still to be watched, by which process and why; empty: all is back for good.
    `parts` are the changes of parts that were undone, by their names.
    """

    ended_daemon: int | None
    restoration: Restoration
    unsettled: str = ""
    parts: Mapping[str, GivenBack] = field(default_factory=dict)


def restore_cluster(
    folder: Path,
    settings: LiveSettings,
    *,
    limit_s: float,
    everything: bool = False,
    wait: bool = True,
    say: Say = lambda _: None,
) -> RestoreResult:
    """End the daemon of a state folder, give everything back within `limit_s`, and see that it stays so.

    `everything`: all waiting jobs, also those that no record names. Where the cluster may undo what is given
    back, it is watched (`restoring.Settling`): until it is over, or (not `wait`) by a process that goes on.
    Raises BadInputError for a daemon that cannot be ended, ServiceUnavailableError when the cluster does not
    answer, OSError for the folder.
    """
    ended = end_daemon(folder / DAEMON_LOCK)
    with ProcessLock(folder / DAEMON_LOCK) as lock:  # none starts meanwhile
        if not lock.acquire():
            raise BadInputError("Another daemon has started.", remedy="Stop what starts it, and try again.")
        beat = read_heartbeat(folder / HEARTBEAT_FILE)
        if beat is not None and not beat.left:
            with suppress(OSError):
                write_heartbeat(folder / HEARTBEAT_FILE, replace(beat, left=True))
        adapter, stage = adapter_kind(settings.adapter).open_to_restore(settings, folder)
        ways = with_way_back()
        parts = {  # what takes long is begun, and goes on while jobs are given back
            name: give_part_back(name, folder, settings, limit_s=limit_s if way.quick else 0.0)
            for name, way in ways.items()
        }
        done = restore_all(folder, adapter, stage, limit_s=limit_s, everything=everything)
        for name, way in ways.items():
            if not way.quick and not parts[name].complete:
                later = give_part_back(name, folder, settings, limit_s=limit_s if wait else 0.0)
                parts[name] = parts[name].followed_by(later)
    result = RestoreResult(ended, done, parts=parts)
    result = _settle(folder, (adapter, stage), result, limit_s, wait, say)
    coming = [each.describe() for each in parts.values() if not each.complete]
    if not coming:
        return result
    start_switch(folder)
    words = f"{'; '.join(coming)}; a process of its own waits for them ({folder / WATCH_LOG})"
    return replace(result, unsettled="; ".join(filter(None, (result.unsettled, words))))


def _settle(
    folder: Path, cluster: RestorableCluster, result: RestoreResult, limit_s: float, wait: bool, say: Say
) -> RestoreResult:
    """See that what was given back stays so, where the cluster may undo it."""
    adapter, _ = cluster
    done = result.restoration
    write_back = adapter.write_backs()
    if not done.complete or write_back is None or not (done.changed or len(TouchedJobs(folder))):
        return result
    words = watch_words(write_back)
    if not wait:
        start_switch(folder)
        return replace(
            result, unsettled=f"{words}; a process of its own does that now ({folder / WATCH_LOG})"
        )
    say(f"All are back; {words}")
    watch = Watch(folder, lambda: cluster, least_s=0.0)
    deadline = time.monotonic() + limit_s + longest_s(write_back)
    unsettled = ""
    while not unsettled and not _settled(watch):
        if watch.controlled():
            unsettled = "a daemon has taken the queue over again"
        elif time.monotonic() > deadline:
            unsettled = f"{watch.done.describe()}; {words}"
        else:
            time.sleep(next_look_s(write_back))
    return replace(result, restoration=done.followed_by(watch.done), unsettled=unsettled or watch.gave_up)


def give_part_back(name: str, folder: Path, settings: LiveSettings, *, limit_s: float) -> GivenBack:
    """Undo what a part has changed; raises as `look_until_back`, OSError for the folder."""
    part = capabilities()[name]
    way = with_way_back()[name]
    record = way.Record(folder)
    if not len(record):
        return way.nothing()
    control, lease = adapter_kind(settings.adapter).open_for(part, settings, folder), WriteLease(folder)

    def look() -> GivenBack:
        with restore_lock(folder), lease_to_restore(lease):
            return way.look(control, record)

    return look_until_back(look, limit_s, _PAUSE_S if way.quick else _LONG_PAUSE_S)


def _settled(watch: Watch) -> bool:
    try:
        return watch.give_back()
    except ServiceUnavailableError:  # it is asked again
        return False


def end_daemon(lock: Path) -> int | None:
    """End the process that holds the lock, by SIGTERM first; return its process id.

    Raises BadInputError where it is another user's, or runs on another machine: its number is another process
    here.
    """
    if (machine := held_elsewhere(lock)) is not None:
        raise BadInputError(f"The daemon runs on the machine {machine!r}.", remedy="Run this there.")
    pid = holder(lock)
    deadline = time.monotonic() + _END_LIMIT_S
    number = signal.SIGTERM
    while pid is not None and holder(lock) == pid:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            break
        except PermissionError:
            raise BadInputError(
                f"The daemon (process {pid}) belongs to another user.", remedy="Run this as its user."
            ) from None
        while holder(lock) == pid and time.monotonic() < deadline:
            time.sleep(0.05)
        number, deadline = signal.SIGKILL, time.monotonic() + 1.0
    return pid


def restore_all(
    folder: Path,
    adapter: ClusterAdapter,
    stage: Restorer | None = None,
    *,
    limit_s: float,
    everything: bool = False,
) -> Restoration:
    """Give all jobs back; raises as `look_until_back`, OSError for the folder."""
    touched = TouchedJobs(folder)

    def look() -> Restoration:
        nonlocal everything
        remember = adapter.write_backs() is not None
        done = restore(adapter, touched, stage=stage, everything=everything, remember=remember)
        everything = False  # what no record names is given back once
        return done

    with restore_lock(folder), lease_to_restore(WriteLease(folder)):
        return look_until_back(look, limit_s, _PAUSE_S)


class PartlyBack(Protocol):
    """What one look gave back."""

    @property
    def complete(self) -> bool:
        """Whether all is back."""

    def followed_by(self, later: Self) -> Self:
        """Return both as one."""


Back = TypeVar("Back", bound=PartlyBack)


def look_until_back(look: Callable[[], Back], limit_s: float, pause_s: float) -> Back:
    """Look again and again until all is back or `limit_s` is over.

    Raises ServiceUnavailableError when the cluster did not answer up to then.
    """
    deadline = time.monotonic() + limit_s
    done: Back | None = None
    while True:
        try:
            later = look()
        except ServiceUnavailableError:
            if time.monotonic() > deadline:
                raise
        else:
            done = later if done is None else done.followed_by(later)
            if done.complete or time.monotonic() > deadline:
                return done
        time.sleep(pause_s)
