"""How Slurm's backfill undoes changes of priorities, and how long that may go on.

A backfill cycle reads all priorities when it begins, yields its locks every now and then so that others may
change jobs, and writes the priority that it has read to each job when its turn comes. A change that was made
meanwhile is undone. Most cycles notice a change and end; with `bf_continue` they go on, and without it a
change in the same second as another is not noticed. Seen on 22.05.8 (`tests/slurm/test_slurm_backfill.py`),
mended in 26.05.3.
"""

import re

from live_scheduler.adapter import WriteBack
from live_scheduler.slurm.commands import config_values

# slurm.conf(5), SchedulerParameters.
_INTERVAL_S, _YIELD_SLEEP_US = 30, 500_000
_MENDED = (26, 5, 3)
# A cycle looks at the clock between two jobs, and whole seconds of it.
_SLACK_S = 2.0
_CYCLES = re.compile(r"Backfilling stats(?P<now>[^\n]*).*?Total cycles:\s*(?P<ended>\d+)", re.DOTALL)
_RUNNING = "in the middle of backfilling"


def write_backs(config: str, diagnostics: str) -> WriteBack | None:
    """Return what `scontrol show config` and `sdiag` say of the backfill; None: nothing is written back.

    `diagnostics` may be empty: the cycles that have ended are not known then.
    """
    settings = config_values(config)
    version = tuple(map(int, re.findall(r"\d+", settings.get("SLURM_VERSION", ""))[:3]))
    if settings.get("SchedulerType", "sched/backfill") != "sched/backfill" or version >= _MENDED:
        return None
    words = settings.get("SchedulerParameters", "").split(",")
    given = {name.strip(): value for name, _, value in (word.partition("=") for word in words)}
    interval_s = _number(given, "bf_interval", _INTERVAL_S)
    if interval_s <= 0:
        return None  # it is switched off
    longest_s = _number(given, "bf_max_time", interval_s) or interval_s
    yield_s = _number(given, "bf_yield_sleep", _YIELD_SLEEP_US) / 1e6
    counted = _CYCLES.search(diagnostics)
    return WriteBack(
        interval_s,
        longest_s + yield_s + _SLACK_S,
        "Slurm's backfill writes back the priorities that its cycle began with"
        f" ({'bf_continue, ' if 'bf_continue' in given else ''}a cycle each {interval_s:g} s)",
        cycles=None if counted is None else int(counted["ended"]),
        running=None if counted is None else _RUNNING in counted["now"],
    )


def _number(given: dict[str, str], name: str, otherwise: float) -> float:
    try:
        return float(given[name])
    except (KeyError, ValueError):
        return otherwise
