"""Which test files share a process, and which run first.

Four processes share two cores: half of the time a process waits for a real server, so files that wait and
files that compute begin side by side, the longest first. Files that use the same server of the session run in
one process, or each process would start a server of its own. Names of files are unique in the tree.
"""

import re
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

TESTS = Path(__file__).parent

# Servers of a session: a test asks for one by a fixture of this name.
SERVERS = ("shop", "mlflow_server")
# A file, or what shares a process: the longest first, those that wait beside those that compute.
FIRST = (
    "shop",
    "mlflow_server",
    "test_chain",
    "test_commands_on_reference_data",
    "test_live_faults",
    "test_slurm_loop",
    "test_live_faults_slurm",
    "test_live_restore",
    "test_authors_recipes",
    "test_slurm_measurements",
    "test_slurm_ingest",
    "test_monitoring_live",
    "test_slurm_adapter",
    "test_slurm_adapter_accounts",
    "test_monitoring",
    "test_slurm_live_answers",
    "test_duration",
    "test_slurm_ingest_runs",
    "test_throughput_evaluation",
    "test_slurm_colocation",
    "test_slurm_profiling_stage",
    "test_sweep",
    "test_live_stages",
    "test_packing",
    "test_zoo",
    "test_private_slurm",
    "test_reproduce_model_updates",
    "test_slurm_commands",
    "test_pairwise",
    "test_slurm_profiling_kills",
    "test_tuning",
    "test_slurm_profile_workloads",
    "test_validation",
    "test_kueue_command",
    "test_supervisor",
    "test_utilisation",
)
_RANK = {name: rank for rank, name in enumerate(FIRST)}


@cache
def _server_of() -> dict[str, str]:
    """Stem of a test file -> the server of the session that its tests ask for."""
    asks = re.compile(rf"def \w+\([^)]*\b({'|'.join(SERVERS)})\b[:,)]")
    found = {path.stem: asks.search(path.read_text(encoding="utf-8")) for path in TESTS.rglob("test_*.py")}
    return {stem: match[1] for stem, match in found.items() if match}


def unit_of(node_id: str) -> str:
    """What runs in one process: a file by its stem, or all files that share a server."""
    stem = node_id.partition("::")[0].rpartition("/")[2].removesuffix(".py")
    return _server_of().get(stem, stem)


def rank_of(node_id: str) -> int:
    """Whose turn it is: lower is earlier."""
    return _RANK.get(unit_of(node_id), len(FIRST))


class ByServer(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each process one unit after the other."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
