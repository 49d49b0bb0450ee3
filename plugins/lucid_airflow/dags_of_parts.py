"""The DAGs of installed parts, made anew at each parse as those of a DAG file are."""

import sys
from importlib import import_module, reload
from typing import Any

from foundation.parts import installed_parts


def dags_of_parts() -> dict[str, Any]:
    """Return each part's DAGs, by id."""
    places = {dag.dag_id: dag.place.partition(":") for part in installed_parts() for dag in part.dags}
    before = set(sys.modules)
    modules = {name: import_module(name) for name, _, _ in places.values()}
    for name in modules.keys() & before:  # forms name what the installation holds by now
        reload(modules[name])
    return {dag_id: getattr(modules[module], name) for dag_id, (module, _, name) in places.items()}
