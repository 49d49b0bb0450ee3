"""The dead man's switch: without the daemon's heartbeat for too long, the cluster's own order returns.

    python -m live_scheduler.safety.dead_mans_switch STATE    (the daemon starts it; or `lucid live watch`)

A process of its own, in a session of its own, so that it outlives whatever ends the daemon; one a state
folder. It looks at the heartbeat, and while that is fresh it does nothing else. When it is not, it says so in
its place (job_submit.lua then gives new jobs Slurm's own priorities, whatever the time of day) and gives all
jobs back (`restoring.py`) under a lease of its own (`write_lease.py`), again and again until all are, and
until the cluster has let them be through two cycles of its own (`restoring.Settling`). What parts
have changed that must be undone it undoes (`live_scheduler/capability.py`, `WayBack`). It ends when that is
done and no daemon lives. A daemon that comes back takes the queue over again, and starts another.
"""

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from foundation import strict_json
from foundation.errors import BadInputError, LucidError, NotFoundError, ServiceUnavailableError
from foundation.exit_codes import CommandLine
from foundation.process_lock import ProcessLock, is_held
from live_scheduler.adapters import RestorableCluster, adapter_kind
from live_scheduler.capability import GivenBack, capabilities, with_way_back
from live_scheduler.live_settings import LiveSettings
from live_scheduler.safety.heartbeat import HEARTBEAT_FILE, Heartbeat, Moment, read_heartbeat, write_heartbeat
from live_scheduler.safety.restoring import Restoration, Settling, next_look_s, restore, watch_words
from live_scheduler.safety.touched import TouchedJobs
from live_scheduler.settings_file import settings_from
from live_scheduler.write_lease import LeaseLostError, WriteLease, is_in_force

DAEMON_LOCK = "daemon.lock"  # held by the daemon as long as it lives
WATCH_LOCK = "watch.lock"  # held by the switch
RESTORE_LOCK = "restore.lock"  # held while jobs are given back
WATCH_SETTINGS = "watch.json"
WATCH_LOG = "watch.log"
# What its log says when it has seen so, and not otherwise.
ALL_BACK = "all are back"
_MOST_LOG_BYTES = 1_000_000

# The queue is looked at once more, so much later.
_SECOND_LOOK_S = 5.0
_LONGEST_PAUSE_S = 10.0
_LOCK_LIMIT_S = 120.0

Say = Callable[[str], None]


class Watch:
    """What the switch does at each look; the process around it is `run`."""

    def __init__(
        self,
        folder: Path,
        open_cluster: Callable[[], RestorableCluster],
        *,
        open_parts: Mapping[str, Callable[[], Any]] | None = None,
        clock: Callable[[], Moment] = Moment.now,
        say: Say = lambda _: None,
        least_s: float = _SECOND_LOOK_S,
    ) -> None:
        """`open_parts`: by the name of a part, what opens that by which its changes are undone.

        `least_s`: the queue is looked at once more, so much later, also where nothing is written back.
        """
        self.folder = folder
        self._last = Restoration()
        self.done = Restoration()  # what was given back so far
        self.parts: dict[str, GivenBack] = {}  # likewise, by the part's name
        self.gave_up = ""  # why it was not watched to the end
        # Opened when it is needed: a process that only looks stays small.
        self._open_cluster = open_cluster
        self._open_parts = open_parts or {}
        self._clock = clock
        self._say = say
        self._path = folder / HEARTBEAT_FILE
        self._lease = WriteLease(folder)
        self._locked_out_s = math.inf  # since when another has given jobs back, by the monotonic clock
        # What the daemon asked for before it died may be done later still.
        self._settling = Settling(least_s=least_s, clock=lambda: clock().monotonic_s)
        self._said_dead = self._said_watching = self._settled = False
        self._dead_since: tuple[str, float] | None = None  # the last beat of the daemon that died
        self._next_look_s = -math.inf

    def look(self) -> bool:
        """Look once, and act if it has to be; return whether all is well for now.

        All is well while a daemon controls the queue, and once everything is given back. Raises
        ServiceUnavailableError when the cluster does not answer, OSError for the state folder.
        """
        now = self._clock()
        beat = read_heartbeat(self._path)
        touched = TouchedJobs(self.folder)
        changed = [name for name, way in with_way_back().items() if len(way.Record(self.folder))]
        if beat is not None and self._alive(beat, now):
            # One that only looks on may have controlled before, with other settings.
            jobs_are_well = beat.controls or not touched.beyond_advice()
            others = [name for name in changed if name not in beat.parts]
            if jobs_are_well and not others:
                self._start_over()
                return True
            if jobs_are_well:
                # They are no business of that daemon's: each writes what is its own.
                back = [self._give_part_back(name, fenced=False) for name in others]
                return all(back)
        elif beat is None and not len(touched) and not changed:
            self._settled = True
            return True  # no daemon was ever here
        elif not self._said_dead or _moment_of(beat) != self._dead_since:
            # Also one that came back and died between two looks.
            self._start_over()
            self._said_dead, self._dead_since = True, _moment_of(beat)
            self._say(f"no heartbeat: {'there is none' if beat is None else _how_dead(beat, now)}")
            self._say_dead(beat)
        if not self._settled and now.monotonic_s >= self._next_look_s:
            try:
                self._settled = self._give_all_back()
            except LeaseLostError:  # a daemon has come back
                return False
            if not self._settled:
                self._next_look_s = max(self._next_look_s, now.monotonic_s + self._pause_s())
        return self._settled

    def _give_all_back(self) -> bool:
        ways = with_way_back()
        quick = [partial(self._give_part_back, name) for name, way in ways.items() if way.quick]
        slow = [partial(self._give_part_back, name) for name, way in ways.items() if not way.quick]
        return self._all_of([*quick, self.give_back, *slow])

    def _all_of(self, steps: Sequence[Callable[[], bool]]) -> bool:
        """Take each step, whatever becomes of those before it; return whether all is back."""
        if not steps:
            return True
        try:
            back = steps[0]()
        finally:
            rest = self._all_of(steps[1:])
        return back and rest

    @property
    def settled(self) -> bool:
        """Whether the last look found no daemon, and nothing left to be given back."""
        return self._settled

    def _pause_s(self) -> float:
        """What takes long is looked at every now and then; jobs that are not back yet, at every look."""
        slow = [name for name, way in with_way_back().items() if not way.quick]
        waits = any(name in self.parts and not self.parts[name].complete for name in slow)
        return next_look_s(None) if waits else 0.0

    def _start_over(self) -> None:
        self._settling.start_over()
        self._settled = self._said_dead = self._said_watching = False
        self._next_look_s = -math.inf

    def give_back(self) -> bool:
        """Give back what is not back; return whether all is, and stays so.

        Raises ServiceUnavailableError when the cluster does not answer, OSError for the state folder.
        """
        with self._acting():
            adapter, stage = self._open_cluster()
            touched = TouchedJobs(self.folder)
            result = restore(
                adapter, touched, stage=stage, remember=True, go_on=lambda: not self.controlled()
            )
            self.done = self.done.followed_by(result)
            if result.changed and result != self._last:
                self._say(result.describe())
            self._last = result
            write_back = adapter.write_backs()
            settled = self._settling.seen(result, write_back)
            if write_back is not None and not settled and self._settling.goes_on_for_ever(write_back):
                self.gave_up = f"{result.describe()}, again and again: {write_back.why}"
                self._say(self.gave_up)
                settled = True
            if settled:
                with suppress(OSError):
                    touched.cross_off(touched)
                if not self.gave_up:
                    self._say(ALL_BACK)
        if result.complete and not settled:
            self._next_look_s = self._clock().monotonic_s + next_look_s(write_back)
            if write_back is not None and not self._said_watching:
                self._said_watching = True
                self._say(watch_words(write_back))
        return settled

    def _give_part_back(self, name: str, fenced: bool = True) -> bool:
        """Undo what a part has changed; return whether all is undone. Raises as `give_back`."""
        way = with_way_back()[name]
        record = way.Record(self.folder)
        if name not in self._open_parts or not len(record):
            return True
        with self._acting(fenced):
            done = way.look(
                self._open_parts[name](), record, lambda: not self._lives(lambda beat: name in beat.parts)
            )
        before = self.parts.get(name, way.nothing())
        self.parts[name] = before.followed_by(done)
        for line in done.news(before):
            self._say(line)
        return done.complete

    def controlled(self) -> bool:
        """Return whether a daemon lives that orders the queue."""
        return self._lives(lambda beat: beat.controls)

    def _lives(self, does: Callable[[Heartbeat], bool]) -> bool:
        """Return whether a daemon lives that does something."""
        beat = read_heartbeat(self._path)
        return beat is not None and does(beat) and self._alive(beat, self._clock())

    def _alive(self, beat: Heartbeat, now: Moment) -> bool:
        """Return whether a daemon lives, and has the lease that its beat names (an observer has none)."""
        return beat.alive(now) and (not beat.lease or is_in_force(self.folder, beat.lease))

    @contextmanager
    def _acting(self, fenced: bool = True) -> Iterator[None]:
        """Let one process give back at a time, and (`fenced`) no other one write."""
        with ExitStack() as stack:
            try:
                stack.enter_context(restore_lock(self.folder, limit_s=1.0))
                self._locked_out_s = math.inf
            except ServiceUnavailableError:
                now_s = self._clock().monotonic_s
                self._locked_out_s = min(self._locked_out_s, now_s)
                # One that hangs while it gives back writes nothing more once the lease is taken.
                if not fenced or now_s - self._locked_out_s < _LOCK_LIMIT_S:
                    raise
            if fenced:
                stack.enter_context(lease_to_restore(self._lease))
            yield

    def _say_dead(self, beat: Heartbeat | None) -> None:
        if beat is not None and not beat.left:
            with suppress(OSError):
                write_heartbeat(self._path, replace(beat, left=True))


def _moment_of(beat: Heartbeat | None) -> tuple[str, float] | None:
    return None if beat is None else (beat.boot_id, beat.monotonic_s)


def _how_dead(beat: Heartbeat, now: Moment) -> str:
    return "the daemon has left" if beat.left else f"the last is {beat.age_s(now):.0f} s old"


@contextmanager
def restore_lock(folder: Path, *, limit_s: float = _LOCK_LIMIT_S) -> Iterator[None]:
    """Keep two from giving jobs back at once; raises ServiceUnavailableError when another does for long."""
    with ProcessLock(folder / RESTORE_LOCK) as lock:
        deadline = time.monotonic() + limit_s
        while not lock.acquire():
            if time.monotonic() > deadline:
                raise ServiceUnavailableError(f"Another process gives jobs back ({folder / RESTORE_LOCK}).")
            time.sleep(0.02)
        yield


@contextmanager
def lease_to_restore(lease: WriteLease) -> Iterator[None]:
    """Write under the lease, taken from whichever process has it; raises ServiceUnavailableError.

    A folder in which none can be kept is no hindrance to the way back.
    """
    with ExitStack() as stack:
        with suppress(OSError):
            if not lease.held:
                lease.take()
            stack.enter_context(lease.writing())
        yield


def run(folder: Path, settings: LiveSettings, *, stay: bool, say: Say) -> None:
    """Watch until a signal, or (unless `stay`) until no daemon lives and all is back.

    Where another watches already it does nothing, or (`stay`) waits until that one is gone.
    """
    told_to_end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told_to_end.set())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    while not told_to_end.is_set():
        with ProcessLock(folder / WATCH_LOCK) as lock:
            while not lock.acquire():
                if not stay:
                    say("another process watches already")
                    return
                if told_to_end.wait(1.0):  # it takes that one's place when it is gone
                    return
            _watch_until(told_to_end, folder, settings, stay=stay, say=say)
        # A daemon that has started since took this one for its switch.
        if not is_held(folder / DAEMON_LOCK):
            return


def _watch_until(
    told_to_end: threading.Event, folder: Path, settings: LiveSettings, *, stay: bool, say: Say
) -> None:
    watch = Watch(
        folder,
        lambda: adapter_kind(settings.adapter).open_to_restore(settings, folder),
        open_parts={
            name: partial(adapter_kind(settings.adapter).open_for, capabilities()[name], settings, folder)
            for name in with_way_back()
        },
        say=say,
    )
    pace_s = min(1.0, settings.dead_after_s / 10)
    pause_s, trouble = pace_s, ""
    while not told_to_end.wait(pause_s):
        try:
            watch.look()
            over = watch.settled and not stay and not is_held(folder / DAEMON_LOCK)
            if over:
                watch.look()  # a daemon may have come and gone before its lock was looked at
            pause_s, trouble = pace_s, ""
        except Exception as error:  # whatever it is, the next look may succeed
            if str(error) != trouble:
                trouble = str(error)
                say(f"trouble: {trouble if isinstance(error, LucidError | OSError) else repr(error)}")
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            continue
        if over and watch.settled:
            say("no daemon lives, and nothing is left to be given back")
            return


def start_switch(folder: Path) -> "subprocess.Popen[bytes] | None":
    """Start a switch for a state folder, in a session of its own; None where one watches already."""
    if is_held(folder / WATCH_LOCK):
        return None
    log = folder / WATCH_LOG
    kept = "ab" if not log.exists() or log.stat().st_size < _MOST_LOG_BYTES else "wb"
    with log.open(kept) as stream:
        return subprocess.Popen(
            [sys.executable, "-m", "live_scheduler.safety.dead_mans_switch", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )


def watch_settings(folder: Path) -> LiveSettings:
    """Return the settings that the last daemon left for the switch; raises NotFoundError, BadInputError."""
    path = folder / WATCH_SETTINGS
    try:
        return settings_from(strict_json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise NotFoundError(
            f"There are no settings {path}.", remedy="Start the daemon once, or check the cluster's name."
        ) from None
    except (OSError, ValueError) as error:
        raise BadInputError(f"The settings {path} cannot be read: {error}.") from error


def tell(text: str) -> None:
    """Write a line with the time to standard output: the log, when the daemon started the switch."""
    print(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} watch[{os.getpid()}] {text}", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the switch for a state folder."""
    parser = CommandLine(prog="dead_mans_switch", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path, metavar="STATE")
    parser.add_argument("--stay", action="store_true", help="go on watching after the daemon has gone")
    given = parser.parse_args(argv)
    try:
        settings = watch_settings(given.folder)
        run(given.folder, settings, stay=given.stay, say=tell)
        return 0
    except LucidError as error:
        tell(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main())
