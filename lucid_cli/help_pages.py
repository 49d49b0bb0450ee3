"""The renderer of help pages and usage errors, without what `lucid` never shows.

It imports Rich's Markdown and tracebacks, and these a parser and a highlighter: most of its own time. Here
they are imported when they are used.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_SELDOM_USED = ("rich.markdown", "rich.traceback")


class _WhenUsed(type):
    """Stands for a class of another module; called, or asked for what it has, it is that class."""

    def _real(cls) -> Any:
        return getattr(import_module(cls.__module__), cls.__name__)

    def __call__(cls, *args: Any, **named: Any) -> Any:
        return cls._real()(*args, **named)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls._real(), name)


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _WhenUsed(name, (), {"__module__": self.__name__})


def import_renderer() -> Any:
    """Import and return `typer.rich_utils`, quickly."""
    stand_ins = {name: _StandIn(name) for name in _SELDOM_USED if name not in sys.modules}
    sys.modules.update(stand_ins)
    try:
        return import_module("typer.rich_utils")
    finally:
        for name in stand_ins:
            del sys.modules[name]
