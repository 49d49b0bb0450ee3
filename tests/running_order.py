"""Which test files share a process, and which run first.

More processes than cores: part of the time a process waits for a real server, so files that wait and files
that compute begin side by side, the longest first: a file that takes long says so (`pytest.mark.slow`).
Files that use the same server of the session run in one process, or each process would start a server of its
own.
"""

import re
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

TESTS = Path(__file__).parent
ROOT = TESTS.parent

# Servers of a session: a test asks for one by a fixture of this name.
SERVERS = ("shop", "mlflow_server", "visit")


@cache
def _server_of() -> dict[str, str]:
    """Path of a test file from the checkout -> the server of the session that its tests ask for."""
    asks = re.compile(rf"def \w+\([^)]*\b({'|'.join(SERVERS)})\b[:,)]")
    files = [file for folder in (TESTS, *ROOT.glob("parts/*/tests")) for file in folder.rglob("test_*.py")]
    found = {path: asks.search(path.read_text(encoding="utf-8")) for path in files}
    return {path.relative_to(ROOT).as_posix(): match[1] for path, match in found.items() if match}


def unit_of(node_id: str) -> str:
    """What runs in one process: a file by its path, or all files that share a server."""
    path = node_id.partition("::")[0]
    return _server_of().get(path, path)


def rank_of(item: pytest.Item) -> int:
    """What runs first is lowest: the whole chain, files that share a server, those that say they are slow."""
    if item.get_closest_marker("end_to_end"):
        return 0
    if unit_of(item.nodeid) in SERVERS:
        return 1
    return 2 if item.get_closest_marker("slow") else 3


class ByServer(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each process one unit after the other."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
