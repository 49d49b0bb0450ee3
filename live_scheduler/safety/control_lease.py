"""The daemon's right to change a cluster: it has it while it beats, and loses it by silence.

    lease = ControlLease(folder, settings)
    lease.take()                                  # one daemon a folder; the dead man's switch is armed
    with lease.writing():                         # a pass
        lease.before(changes, state, priorities)  # records what will be touched; then adapter.apply(changes)
        lease.beat()                              # after a healthy pass
    lease.leave()                                 # a clean end: everything is given back

The switch is a process of its own (`dead_mans_switch.py`), started here unless one watches already. After a
silence that was too long it takes the lease, and a daemon that wakes up then writes nothing more. It takes
the lease again when a pass of its goes well, and writes in the next one, which reads the cluster anew.
"""

import json
import logging
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from foundation.errors import BadInputError, LucidError, ServiceUnavailableError
from foundation.private_files import private_folder
from foundation.process_lock import ProcessLock, holder, is_held
from foundation.replaced_files import replace_file
from live_scheduler.adapter import Change, ClusterAdapter, PriorityRange
from live_scheduler.adapters import adapter_kind
from live_scheduler.capability import with_way_back
from live_scheduler.cluster_state import ClusterState
from live_scheduler.live_settings import LiveSettings, Mode
from live_scheduler.memory.records import LastLines
from live_scheduler.safety.dead_mans_switch import (
    DAEMON_LOCK,
    WATCH_LOCK,
    WATCH_SETTINGS,
    start_switch,
    watch_settings,
)
from live_scheduler.safety.heartbeat import HEARTBEAT_FILE, Heartbeat, Moment, write_heartbeat
from live_scheduler.safety.operators_word import OperatorsWord
from live_scheduler.safety.restore_command import give_part_back, restore_all
from live_scheduler.safety.restoring import Restoration
from live_scheduler.safety.touched import TouchedJobs
from live_scheduler.write_lease import LeaseLostError, WriteLease

logger = logging.getLogger("lucid.live")

_LEAVE_LIMIT_S = 20.0
_END_LIMIT_S = 5.0
_ARMED_WITHIN_S, _LOOK_EVERY_S = 60.0, 0.01
_UNARMED = "The dead man's switch does not start: nothing is changed."
# A long write renews the lease so often.
_RENEWALS_A_LIFE = 4
# Where it is quick the first look asks for the change, and a second one sees that it was made.
_SECOND_LOOK_LIMIT_S = 0.1


Record = TypeVar("Record", bound=LastLines[Any])


class ControlLease:
    """One daemon's hold on one state folder."""

    def __init__(
        self, folder: Path, settings: LiveSettings, *, clock: Callable[[], Moment] = Moment.now
    ) -> None:
        self.folder = folder
        self.settings = settings
        self._clock = clock
        self._lock = ProcessLock(folder / DAEMON_LOCK)
        self._words: OperatorsWord | None = None
        self._write = WriteLease(folder, renew=self._renew)
        self._beat_s = 0.0  # the last one, by the monotonic clock
        self._watch: subprocess.Popen[bytes] | None = None
        self._records: dict[str, LastLines[Any]] = {}

    @cached_property
    def touched(self) -> TouchedJobs:
        """The record of the jobs that this product has touched."""
        return TouchedJobs(self.folder)

    def record(self, kind: type[Record]) -> Record:
        """Return the folder's record of a part's changes that must be undone; raises OSError.

        It is one object, however often it is asked for.
        """
        if kind.file_name not in self._records:
            self._records[kind.file_name] = kind(self.folder)
        found = self._records[kind.file_name]
        assert isinstance(found, kind)  # noqa: S101  (a file has one kind)
        return found

    @property
    def _holds(self) -> bool:
        """Whether anything is on record that is to be given back some time."""
        return bool(
            len(self.touched) or any(len(self.record(way.Record)) for way in with_way_back().values())
        )

    def take(self) -> None:
        """Become the daemon of this folder, and arm the switch.

        Raises BadInputError where another daemon lives or the folder cannot be written,
        ServiceUnavailableError where a program of an earlier one still writes and cannot be ended.
        """
        try:
            private_folder(self.folder, tighten=False)
            if not self._lock.acquire():
                raise BadInputError(
                    f"A daemon runs with the state {self.folder} already"
                    f" (process {holder(self.folder / DAEMON_LOCK) or 'unknown'}).",
                    remedy="Stop it, or give this one a cluster name or a state folder of its own.",
                )
            self._check_parts()
            self._leave_settings()
            if self._changes_something:
                self._write.take()
            self._write_beat()
            self._arm()
        except LucidError:
            self._lock.release()
            raise
        except OSError as error:
            self._lock.release()
            raise BadInputError(
                f"The state folder {self.folder} cannot be written: {error}.",
                remedy="The daemon has to keep its state: give it a folder with room (LUCID_STATE_DIR).",
            ) from error

    def writing(self) -> AbstractContextManager[None]:
        """Let what is written to the cluster meanwhile be written under this lease."""
        return self._write.writing()

    def before(self, changes: Sequence[Change], state: ClusterState, allowed: PriorityRange) -> None:
        """Record `changes` before they are asked of the cluster, and renew the lease.

        Raises ServiceUnavailableError when that cannot be written down: nothing may be changed then, since
        it would not be known what to give back. Raises LeaseLostError when the switch has stepped in since
        the last pass: what was read meanwhile may be past.
        """
        with self._writing():
            self._arm()
            self._keep_lease()
            self.touched.note(changes, state, allowed)
        if self._words is not None:
            self._words.asked(changes)

    def heard(self, state: ClusterState, adapter: ClusterAdapter) -> ClusterState:
        """Return a reading with what of its jobs another hand has set, after writing that down.

        Raises ServiceUnavailableError when the cluster does not answer, or that cannot be written down.
        """
        with self._writing():
            self.touched.refresh()
            if self._words is None:
                self._words = OperatorsWord(self.folder, adapter, self.touched)
            return self._words.heard(state)

    @contextmanager
    def before_change(self) -> Iterator[None]:
        """Let a part write down what it is about to change, and renew the lease; raises as `before`."""
        with self._writing():
            self._arm()
            self._keep_lease()
            yield
            self._arm()

    def keeping(self) -> AbstractContextManager[None]:
        """Let a part keep its record meanwhile; what OSError it raises is a ServiceUnavailableError."""
        return self._writing()

    def beat(self) -> None:
        """Say that all is well, and see that the switch is armed; raises ServiceUnavailableError.

        A lease that was lost is taken again.
        """
        with self._writing():
            if self._changes_something and not self._write.held:
                self._take_lease()
            self._write_beat()
            self._arm()

    def forget_ended(self, state: ClusterState) -> None:
        """Keep the record small; raises ServiceUnavailableError."""
        with self._writing():
            self.touched.forget_ended(state.by_id.keys())

    def leave(self, *, limit_s: float = _LEAVE_LIMIT_S) -> Restoration:
        """Give everything back, and end the switch if nothing is left to be watched.

        What is not back within `limit_s`, and what the cluster may still undo, is the switch's. Never raises:
        a daemon must be able to end.
        """
        with suppress(OSError):
            self._write_beat(left=True)
        done = Restoration()
        try:
            if self.settings.mode is not Mode.OBSERVE or len(self.touched):
                adapter = adapter_kind(self.settings.adapter)
                cluster = adapter.open_to_restore(self.settings, self.folder)
                done = restore_all(self.folder, *cluster, limit_s=limit_s)
                self.touched.reload()
        except Exception as error:  # the switch goes on where this ends
            logger.warning("not everything was given back: %s", error)
            done = Restoration(left=tuple(self.touched))
        self._give_parts_back()
        self._lock.release()
        watch = self._watch
        if self._holds:  # what is back may be written over once more, and nodes boot: the switch watches on
            with suppress(OSError, LucidError):
                self._arm()
        elif watch is not None and done.complete:
            watch.terminate()
            try:
                watch.wait(_END_LIMIT_S)
            except subprocess.TimeoutExpired:
                watch.kill()
                watch.wait()
        return done

    def _give_parts_back(self) -> None:
        """Undo what parts have changed; what is not back yet is the switch's."""
        for name, way in with_way_back().items():
            try:
                limit_s = _SECOND_LOOK_LIMIT_S if way.quick else 0.0
                back = give_part_back(name, self.folder, self.settings, limit_s=limit_s)
                if back.changed:
                    logger.info("%s", back.describe())
            except Exception as error:  # likewise
                logger.warning("not everything was given back (%s): %s", name, error)
            with suppress(OSError):
                self.record(way.Record).reload()

    def _keep_lease(self) -> None:
        """Renew the lease; raises LeaseLostError in a pass that began without it, and takes it again."""
        if self._write.held:
            self._write_beat()
            return
        first = not self._write.token
        self._take_lease()
        if first:
            return
        raise LeaseLostError(
            f"No pass had gone well for {self.settings.dead_after_s:g} s, and the dead man's switch has"
            " stepped in: this pass changes nothing, the next one takes over again."
        )

    def _take_lease(self) -> None:
        """Take the lease from the switch, which stops; raises ServiceUnavailableError, OSError."""
        if self.settings.mode is not Mode.CONTROL:
            self.touched.refresh()
            if self.touched.beyond_advice():
                raise ServiceUnavailableError("The order of an earlier daemon is still to be given back.")
        self._write_beat()  # on a full disk the lease stays the switch's
        self._write.take()
        self._write_beat()
        self._arm()

    def _renew(self) -> None:
        if self._clock().monotonic_s - self._beat_s > self.settings.dead_after_s / _RENEWALS_A_LIFE:
            with self._writing():
                self._write_beat()

    def _write_beat(self, *, left: bool = False) -> None:
        now = self._clock()
        beat = Heartbeat(
            at_s=now.at_s,
            monotonic_s=now.monotonic_s,
            boot_id=now.boot_id,
            dead_after_s=self.settings.dead_after_s,
            controls=self.settings.mode is Mode.CONTROL,
            pid=os.getpid(),
            left=left,
            parts=self.settings.in_control,
            lease=self._write.token,
        )
        write_heartbeat(self.folder / HEARTBEAT_FILE, beat)
        self._beat_s = now.monotonic_s

    @property
    def _changes_something(self) -> bool:
        """Whether this daemon writes to the cluster: one that only looks on takes no lease."""
        return self.settings.mode is not Mode.OBSERVE or bool(self.settings.in_control)

    def _check_parts(self) -> None:
        """Refuse settings by which what parts have changed would not be undone."""
        holding = {name: way for name, way in with_way_back().items() if len(self.record(way.Record))}
        if not holding:
            return
        try:
            before = watch_settings(self.folder).tables
        except LucidError:  # none are there, or none of this version's
            return
        for name, way in holding.items():
            way.check(self.record(way.Record), before.get(name), self.settings.tables.get(name))

    def _leave_settings(self) -> None:
        path = self.folder / WATCH_SETTINGS
        replace_file(path, json.dumps(asdict(self.settings)))

    def _arm(self) -> None:
        if self._watch is not None and self._watch.poll() is None:
            return
        if not self._changes_something and not self._holds:
            return  # nothing is to be given back, ever
        deadline = time.monotonic() + _ARMED_WITHIN_S
        while (watch := start_switch(self.folder)) is not None:
            self._watch = watch
            # Whatever was changed before it watches, nothing would give back.
            while watch.poll() is None and not is_held(self.folder / WATCH_LOCK):
                if time.monotonic() > deadline:
                    raise ServiceUnavailableError(_UNARMED)
                time.sleep(_LOOK_EVERY_S)
            if watch.poll() is None:
                return
            if time.monotonic() > deadline:
                raise ServiceUnavailableError(_UNARMED)
        self._watch = None  # another process watches, such as a service manager's

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ServiceUnavailableError(
                f"The state folder {self.folder} cannot be written: {error}; nothing is changed.",
                remedy="Make room there, or give it back to this user.",
            ) from error
