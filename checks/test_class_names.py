"""A public class name stands for one thing in the product and its experiments."""

import ast
from collections import defaultdict

from checks.tree import FOLDERS, modules, nodes

# Messages of the decision service are called as what they carry.
MESSAGES = frozenset({"ClusterState", "Decision", "EndedJob", "Hindsight", "Job", "Refusal"})


def test_no_two_classes_share_a_public_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in modules(*FOLDERS):
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    shared = {name: paths for name, paths in places.items() if len(paths) > 1}
    messages = {
        name for name, paths in shared.items() if any("live_scheduler/service/" in path for path in paths)
    }
    assert messages <= MESSAGES
    assert not {name: shared[name] for name in shared.keys() - messages}
