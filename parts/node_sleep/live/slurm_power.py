"""Slurm's power saving: POWER_DOWN and POWER_UP by scontrol.

What this relies on, each seen on Slurm 22.05:

- A node that is told POWER_DOWN while jobs run there goes on with them, may get more, and sleeps when it is
  idle; that cannot be taken back (POWER_UP is silently dropped until it sleeps).
- SuspendExcNodes and SuspendExcParts do not hold for what is asked by hand: they are kept to here.
- Slurm gives jobs to sleeping nodes and boots those. One that is not back after ResumeTimeout is set down,
  with the reason "ResumeTimeout reached"; POWER_UP tries again.
- With SuspendTime=INFINITE power saving is off, and POWER_DOWN an invalid state.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster_logs.host_lists import expand_hosts
from live_scheduler.live_settings import LiveSettings
from live_scheduler.slurm.commands import call, config_values
from live_scheduler.slurm.node_reading import POWER_COMMAND, parse_power, reserved_nodes
from live_scheduler.slurm.scontrol_session import ScontrolSession
from parts.node_sleep.live.node_power import NodeChange, NodeRefusal, PowerReading, PutToSleep

_READ_LIMIT_S, _ASK_LIMIT_S = 20.0, 60.0
# slurm.conf is read anew so often; reservations at every look.
_CONFIG_KEPT_S = 60.0
# Slurm would put nodes to sleep that were woken as a buffer.
LEAST_SUSPEND_TIME_S = 86_400

_SECONDS = re.compile(r"\d+")
_SUSPEND_TIMES = re.compile(r"\bSuspendTime=(\d+)")  # of partitions that have one of their own


@dataclass(frozen=True)
class PowerSettings:
    """What slurm.conf says of power saving; `problem`: why it cannot be driven ("": it can)."""

    excluded_nodes: frozenset[str]
    excluded_partitions: frozenset[str]
    problem: str = ""


class SlurmNodePower:
    """The nodes of one Slurm cluster (`parts.node_sleep.live.node_power.PowerControl`)."""

    def __init__(self, keep_awake: Sequence[str] = ()) -> None:
        """Nothing is asked yet; `keep_awake` are host lists of nodes that never sleep."""
        self._keep_awake = frozenset(name for each in keep_awake for name in expand_hosts(each))
        self._config: PowerSettings | None = None
        self._config_read_s = 0.0

    def read(self) -> PowerReading:
        """Return all nodes as they are now."""
        if self._config is None or time.monotonic() - self._config_read_s > _CONFIG_KEPT_S:
            self._config = power_settings(
                call(["scontrol", "show", "config"], limit_s=_READ_LIMIT_S),
                call(["scontrol", "--oneliner", "show", "partition"], limit_s=_READ_LIMIT_S),
            )
            self._config_read_s = time.monotonic()
        config = self._config
        reservations = call(["scontrol", "--oneliner", "show", "reservation"], limit_s=_READ_LIMIT_S)
        untouchable = config.excluded_nodes | self._keep_awake | reserved_nodes(reservations)
        lines = call(POWER_COMMAND, limit_s=_READ_LIMIT_S).splitlines()
        nodes = parse_power(lines, untouchable, config.excluded_partitions)
        return PowerReading(nodes, config.problem)

    def apply(self, changes: Sequence[NodeChange]) -> list[NodeRefusal]:
        """Ask for the changes in their order; return those that Slurm refused."""
        with ScontrolSession(_ASK_LIMIT_S) as session:
            answers = session.tell(
                [
                    f"update NodeName={change.node}"
                    f" State={'POWER_DOWN' if isinstance(change, PutToSleep) else 'POWER_UP'}"
                    for change in changes
                ]
            )
        return [NodeRefusal(change, why) for change, why in zip(changes, answers, strict=True) if why]


def power_settings(config: str, partitions: str = "") -> PowerSettings:
    """Return what `scontrol show config` and `scontrol --oneliner show partition` say of power saving."""
    given = {name: value for name, value in config_values(config).items() if value != "(null)"}
    # `n[1-4]:2` keeps any two of them awake: all four are left alone.
    excluded = re.sub(r":\d+", "", given.get("SuspendExcNodes", ""))
    missing = [name for name in ("SuspendProgram", "ResumeProgram") if name not in given]
    suspend_time = _SECONDS.match(given.get("SuspendTime", ""))
    problem = ""
    if missing or suspend_time is None:
        problem = (
            f"Slurm's power saving is off ({' and '.join(missing) or 'SuspendTime=INFINITE'}"
            f"{' not set' if missing else ''} in slurm.conf)."
        )
    else:
        own = _SUSPEND_TIMES.findall(partitions)
        least_s = min(map(int, (suspend_time[0], *own)))
        if least_s < LEAST_SUSPEND_TIME_S:
            problem = (
                f"Slurm puts nodes to sleep itself after SuspendTime={least_s} s, the buffer too:"
                f" set it to {LEAST_SUSPEND_TIME_S} s or more."
            )
    return PowerSettings(
        frozenset(expand_hosts(excluded)),
        frozenset(filter(None, given.get("SuspendExcParts", "").split(","))),
        problem,
    )


def open_power(settings: LiveSettings, _folder: Path) -> SlurmNodePower:
    """Return the power saving of the cluster that SLURM_CONF names."""
    table = settings.tables.get("node_sleep")
    return SlurmNodePower(table.keep_awake if table is not None else ())
