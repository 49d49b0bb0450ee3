"""docs/policy_settings.md: the rule of each policy and its settings, from the docstrings of its code."""

import sys
from dataclasses import MISSING, Field, fields
from inspect import cleandoc
from typing import Any

from foundation.checked_settings import CheckedSettings
from simulator.policies.registry import policy_class, policy_names


def policy_sections() -> str:
    """Return a section for each policy, then one for each group of settings that several policies have."""
    groups: dict[type, list[str]] = {}
    sections = []
    for name in policy_names():
        policy = policy_class(name)
        module = sys.modules[policy.__module__]
        parts = [f"## {name}", cleandoc(module.__doc__ or ""), cleandoc(policy.__doc__ or "")]
        if (settings := getattr(policy, "Settings", None)) is not None:
            parts.append(f"Settings: {', '.join(map(_with_default, fields(settings)))}.")
            for group in _documented(settings):
                if group is settings:
                    parts.append(cleandoc(group.__doc__ or ""))
                else:
                    groups.setdefault(group, []).append(name)
        sections.append("\n\n".join(parts))
    shared = [
        f"### {group.__name__} ({', '.join(names)})\n\n{cleandoc(group.__doc__ or '')}"
        for group, names in groups.items()
    ]
    return "\n\n".join([*sections, "## Settings of a stage, or of several policies", *shared])


def _documented(settings: type) -> list[type]:
    """A settings class and its bases, the most general first, as far as they say what their fields mean."""
    return [
        kind
        for kind in reversed(settings.__mro__)
        if kind not in (object, CheckedSettings) and "__dataclass_fields__" in vars(kind)
    ]


def _with_default(setting: "Field[Any]") -> str:
    if setting.default is not MISSING:
        default = setting.default
    else:
        default = setting.default_factory() if setting.default_factory is not MISSING else "required"
    shown = f"{default:g}" if isinstance(default, float) and abs(default) < 1e6 else str(default)
    return f"`{setting.name}` ({shown})" if len(shown) < 40 else f"`{setting.name}`"
