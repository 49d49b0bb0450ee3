"""Policies that tests are run with."""

from simulator.policies.registry import usable_policies


def installed_policies(*names: str) -> list[str]:
    """Return those of these policies that are installed: a part may bring some."""
    return [name for name in names if name in usable_policies()]
