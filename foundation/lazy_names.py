"""The names that a package keeps, imported when they are first asked for (PEP 562).

A package stays as light as its lightest module: `import simulator` imports no NumPy.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package from its names by the module that has them.

    A package calls it once: `__getattr__, __dir__, __all__ = lazy_names(__name__, {"client": ["Client"]})`.
    """
    module_of = {name: f"{package}.{module}" for module, kept in names.items() for name in kept}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        return getattr(import_module(module_of[name]), name)

    return get, lambda: sorted(module_of), sorted(module_of)
