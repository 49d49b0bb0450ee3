"""The names that a package keeps, imported when they are first asked for (PEP 562).

A package lists them once, as imports for type checkers (`if TYPE_CHECKING: from a.b import Name as Name`),
and stays as light as its lightest module: `import simulator` imports no NumPy.
"""

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` (of `__all__` too) and `__dir__` of a package, which calls it with its name."""

    @cache
    def module_of() -> dict[str, str]:
        import ast  # for the first name only: most imports are of modules

        spec = sys.modules[package].__spec__
        source = spec.loader.get_source(package) if spec and spec.loader else ""  # type: ignore[attr-defined]
        return {
            alias.name: str(node.module)
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if alias.asname == alias.name
        }

    def get(name: str) -> Any:
        if name == "__all__":
            return sorted(module_of())
        if name.startswith("__") or name not in module_of():
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        return getattr(import_module(module_of()[name]), name)

    return get, lambda: sorted(module_of())
