"""Follows nodes from reading to reading: which boot, which did not come back, which are left alone."""

from live_scheduler.cluster_state import PowerState
from parts.node_sleep.live.node_power import PowerReading


class Boots:
    """What became of all boots, also those not asked for here. A node that failed rests for `rest_s`."""

    def __init__(self, rest_s: float) -> None:
        """Nothing is known yet."""
        self.begun = 0
        self.failed = 0
        self._rest_s = rest_s
        self._powers: dict[str, PowerState] | None = None
        self._asked: set[str] = set()
        self._rests_until_s: dict[str, float] = {}

    def follow(self, reading: PowerReading, now_s: float) -> set[str]:
        """Take in a reading; return the nodes that boot for jobs now, without having been asked for here.

        What boots or has failed at the first reading is taken as it is.
        """
        before = self._powers
        powers = {node.name: node.power for node in reading.nodes}
        self._powers = powers
        unasked: set[str] = set()
        for name, power in powers.items():
            earlier = power if before is None else before.get(name)
            if power is PowerState.BOOT_FAILED and (before is None or earlier is not power):
                self.failed += before is not None
                self.rest(name, now_s)
            elif power is PowerState.BOOTING and earlier is not power:
                self.begun += 1
                if name not in self._asked:
                    unasked.add(name)
        not_begun = (PowerState.ASLEEP, PowerState.BOOT_FAILED)
        self._asked = {name for name in self._asked if powers.get(name) in not_begun}
        return unasked

    def asked_for(self, name: str) -> None:
        """A node was told to boot: its boot is no surprise."""
        self._asked.add(name)

    def rest(self, name: str, now_s: float) -> None:
        """Leave a node alone from now on."""
        self._rests_until_s[name] = now_s + self._rest_s

    def resting(self, now_s: float) -> set[str]:
        """Return the nodes that are left alone now."""
        self._rests_until_s = {name: until for name, until in self._rests_until_s.items() if until > now_s}
        return set(self._rests_until_s)
