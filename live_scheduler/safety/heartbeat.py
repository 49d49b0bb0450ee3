"""The daemon's heartbeat: one small file, replaced in one step, that says when it was last well.

    STATE/heartbeat.json    {"at_s": 1732200000.123, "dead_after_s": 60.0, "controls": true, ...}

A reader on the same machine goes by the monotonic clock since the same boot, so that a clock that jumps
neither kills a living daemon nor keeps a dead one alive. One that can only read the time of day (Slurm's
job_submit.lua, another machine, after a reboot) takes a beat from the future for no beat at all.
"""

import contextlib
import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from foundation import strict_json
from foundation.replaced_files import replace_file

HEARTBEAT_FILE = "heartbeat.json"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MOST_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment by both clocks; the monotonic one has a meaning within one boot of one machine."""

    at_s: float
    monotonic_s: float
    boot_id: str

    @classmethod
    def now(cls) -> "Moment":
        """Read the clocks."""
        return cls(time.time(), time.monotonic(), boot_id())


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What the daemon last said of itself.

    `at_s` is Unix time, `monotonic_s` counts within the boot `boot_id`. `controls`: it orders the queue (it
    only looks on otherwise). `left`: it ended on purpose and will not beat again. `parts` are those by whose
    settings it changes the cluster (`LiveSettings.in_control`). `lease` is the token of the lease on writing
    that it had then (`write_lease.py`; empty: it writes nothing). `pid` is for people.
    """

    at_s: float
    monotonic_s: float
    boot_id: str
    dead_after_s: float
    controls: bool
    pid: int
    left: bool = False
    parts: tuple[str, ...] = ()
    lease: str = ""

    def age_s(self, now: Moment) -> float:
        """Return how old the beat is; infinite when it comes from the future of its clock."""
        if self.boot_id and self.boot_id == now.boot_id:
            age_s = now.monotonic_s - self.monotonic_s
        else:
            age_s = now.at_s - self.at_s
        # Two readings of the time of day may be a moment apart; the monotonic clock never runs backwards.
        return max(age_s, 0.0) if age_s > -1.0 else math.inf

    def alive(self, now: Moment) -> bool:
        """Return whether its daemon is to be trusted with the queue."""
        return not self.left and self.age_s(now) <= self.dead_after_s


def boot_id() -> str:
    """Return what names this boot of this machine; empty where the kernel does not say."""
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text().strip()
    return ""


def write_heartbeat(path: Path, beat: Heartbeat) -> None:
    """Replace the file in one step; raises OSError. It is readable by all, since it says nothing secret."""
    replace_file(path, json.dumps(asdict(beat)) + "\n", mode=0o644)


def read_heartbeat(path: Path) -> Heartbeat | None:
    """Return what the file says; None without one, or when it is no heartbeat: no daemon is alive then."""
    try:
        with path.open(encoding="utf-8") as stream:
            fields = strict_json.loads(stream.read(_MOST_BYTES))
        beat = Heartbeat(
            at_s=float(fields["at_s"]),
            monotonic_s=float(fields["monotonic_s"]),
            boot_id=str(fields["boot_id"]),
            dead_after_s=float(fields["dead_after_s"]),
            controls=bool(fields["controls"]),
            pid=int(fields["pid"]),
            left=bool(fields["left"]),
            parts=tuple(map(str, fields.get("parts", ()))),
            lease=str(fields.get("lease", "")),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    times = (beat.at_s, beat.monotonic_s, beat.dead_after_s)
    return beat if all(math.isfinite(time_s) for time_s in times) else None
