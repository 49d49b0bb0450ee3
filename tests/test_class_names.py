"""A public class name stands for one thing in the product and its experiments."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = (
    *("foundation", "cluster_logs", "profiler_jobs", "lucid_models", "simulator", "live_scheduler"),
    *("local_stack", "pipeline", "plugins", "lucid_cli", "dags", "experiments"),
)
# Messages of the decision service are called as what they carry.
MESSAGES = frozenset({"ClusterState", "Decision", "EndedJob", "Hindsight", "Job", "Refusal"})


def test_no_two_classes_share_a_public_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.stem.endswith("_pb2"):
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(str(path.relative_to(ROOT)))
    shared = {name: paths for name, paths in places.items() if len(paths) > 1}
    messages = {
        name for name, paths in shared.items() if any("live_scheduler/service/" in path for path in paths)
    }
    assert messages <= MESSAGES
    assert not {name: shared[name] for name in shared.keys() - messages}
