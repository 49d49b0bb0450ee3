"""The settings that Helios' artifact has for each cluster (SC '21, section 4.3; values of its notebook)."""

from parts.node_sleep.replay.settings import SleepSettings


def _helios(buffer_nodes: int, past_bins: int, past_threshold: float, least_nodes: int) -> SleepSettings:
    return SleepSettings(
        "helios-artifact",
        buffer_nodes=buffer_nodes,
        past_bins=past_bins,
        near_bins=18,
        past_threshold=past_threshold,
        forecast_threshold=1.0,
        least_nodes=least_nodes,
        keep_bins=12,
    )


PUBLISHED_SETTINGS = {
    "venus": _helios(5, 3, 0.5, 2),
    "earth": _helios(5, 6, 1.0, 5),
    "saturn": _helios(5, 6, 1.0, 1),
    "uranus": _helios(7, 3, 1.0, 1),
    "philly": SleepSettings("helios-artifact"),
}
