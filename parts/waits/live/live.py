"""The wait model in the live scheduler: another forecast of when waiting jobs start."""

from typing import TYPE_CHECKING

from live_scheduler.capability import LiveCapability

if TYPE_CHECKING:
    from live_scheduler.daemon import Daemon
    from parts.waits.live.wait_forecasts import WaitForecasts


class WaitsLive(LiveCapability):
    """How long a job would wait, by a model of the cluster's own queue."""

    name = "waits"

    def other_starts(self, daemon: "Daemon") -> "WaitForecasts":
        """Return the wait model's forecasts of the daemon's queue."""
        from parts.waits.live.wait_forecasts import WaitForecasts

        return WaitForecasts(daemon)


LIVE = WaitsLive()
