"""Which tests run when: `make test-quick`, `make test` and `make test-all`, each with all of the one before.

quick     the inner loop: no server runs, no model is trained
usual     every behaviour that a user meets, with what pip installs and nothing else
all       besides: Slurm, Prometheus, Chromium, the whole stack end to end, public data, the experiments, and
          the full size of what a smaller test shows already

A test says by a marker why it waits for a larger tier; a few folders say it for all that they hold.
"""

from collections.abc import Callable
from enum import IntEnum
from pathlib import Path, PurePosixPath

import pytest

from tests.running_order import SERVERS, TESTS

OPTION = "--tier"


class Tier(IntEnum):
    QUICK = 0
    USUAL = 1
    ALL = 2


# Folder of tests/, or of a part's -> what its tests take that pip does not bring, or who alone they are for.
ONLY_IN_ALL = {
    "browser": "Chromium",
    "end_to_end": "the whole stack",
    "experiments": "the experiments",
    "harness": "how the tests themselves run",
    "slurm": "Slurm",
}
# Fixture that starts such a server in other folders -> the server.
STARTS = {"prometheus": "Prometheus"}
# A fixture behind which something real runs, or a model is trained.
FIXTURES = frozenset(
    (
        *SERVERS,
        *("metadata_database", "world", "trained_versions", "small_model_files"),
        *("stocked_server", "stocked_file"),
        *("duration_model", "throughput_model", "packing_model", "utilisation_model"),
    )
)


def reason_for_all(item: pytest.Item) -> str | None:
    """Why a test runs in the largest tier only; None for one that runs in `make test` too."""
    if (folder := folder_of_tests(item.nodeid)) in ONLY_IN_ALL:
        return ONLY_IN_ALL[folder]
    for fixture in getattr(item, "fixturenames", ()):
        if fixture in STARTS:
            return STARTS[fixture]
    if marker := item.get_closest_marker("thorough"):
        return str(marker.args[0])
    return "public data" if item.get_closest_marker("reference") else None


def folder_of_tests(node_id: str) -> str:
    """The folder of tests/, or of a part's, in which a test lies; "" for none."""
    folders = PurePosixPath(node_id.partition("::")[0]).parts[:-1]
    return "".join(folders[3:4] if folders[:1] == ("parts",) else folders[1:2])


def tier_of(item: pytest.Item) -> Tier:
    """The smallest tier that runs a test."""
    if reason_for_all(item) is not None:
        return Tier.ALL
    if item.get_closest_marker("slow") or FIXTURES & set(getattr(item, "fixturenames", ())):
        return Tier.USUAL
    return Tier.QUICK


def add_option(parser: pytest.Parser) -> None:
    """Declare the option; without it all tests run."""
    names = [tier.name.lower() for tier in Tier]
    parser.addoption(OPTION, choices=names, default="all", help="leave out tests of larger tiers")


def ignores(config: pytest.Config, path: Path) -> bool:
    """Whether a folder holds nothing of the tier, so that not even its imports are worth their time."""
    is_of_tests = path.parent == TESTS or path.parent.parent.parent == TESTS.parent / "parts"
    return path.name in ONLY_IN_ALL and is_of_tests and asked_tier(config) < Tier.ALL


def asked_tier(config: pytest.Config) -> Tier:
    """The tier that this run is of."""
    return Tier[str(config.getoption(OPTION)).upper()]


def keep_tier(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of the tier that was asked for, and of those below it."""
    asked = asked_tier(config)
    keep(config, items, lambda item: tier_of(item) <= asked)


def keep(config: pytest.Config, items: list[pytest.Item], wanted: Callable[[pytest.Item], bool]) -> None:
    """Leave the tests that are wanted, and report the others as deselected."""
    config.hook.pytest_deselected(items=[item for item in items if not wanted(item)])
    items[:] = filter(wanted, items)
