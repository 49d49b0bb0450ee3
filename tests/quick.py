"""`--quick`: the inner loop. What takes long says so by a marker, or asks for a server or for public data."""

import pytest

from tests.running_order import SERVERS

OPTION = "--quick"
MARKERS = ("slow", "end_to_end", "reference")
# A fixture behind which something real runs, or a model is trained.
FIXTURES = frozenset(
    (
        *SERVERS,
        *("running_slurm", "running_accounted_slurm", "metadata_database", "world", "trained_versions"),
        *("small_model_files", "stocked_server", "duration_model", "throughput_model", "packing_model"),
        *("utilisation_model", "chromium", "empty_installation", "installation"),
    )
)


def is_quick(item: pytest.Item) -> bool:
    """Whether a test belongs to the inner loop."""
    if any(item.get_closest_marker(marker) for marker in MARKERS):
        return False
    return not FIXTURES & set(getattr(item, "fixturenames", ()))


def keep_quick(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With the option, leave the quick tests only."""
    if not config.getoption("quick"):
        return
    kept = [item for item in items if is_quick(item)]
    left = set(items) - set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    items[:] = kept
