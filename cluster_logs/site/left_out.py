"""What a declaration says that the policy `site` does not replay, and what that does to waits."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any

from cluster_logs.site.declared import Declared, hints_of
from cluster_logs.site.rules import KNOWN_TRES, OTHER_TRES, Ignored, SiteRules, SlurmKey

_MOST_SHOWN = 5  # values of a key


def left_out(rules: SiteRules) -> tuple[Ignored, ...]:
    """Return what of a declaration is not replayed, a line a key: what differs from Slurm's default."""
    values: dict[tuple[str, str], dict[str, None]] = {}
    for table in _tables(rules):
        kind: Any = type(table)
        defaults = _defaults(kind)
        for name, holds in slurm_keys(kind).items():
            for key, effect, value in _said(holds, getattr(table, name), defaults[name]):
                values.setdefault((key, effect), {})[f"{_of(table)}{value}"] = None
    return tuple(
        Ignored(key=key, value=listed(found), effect=effect) for (key, effect), found in values.items()
    )


def slurm_keys(kind: Any) -> Mapping[str, SlurmKey]:
    """Return the key of Slurm's that each field of a table holds, by the field's name."""
    return _slurm_keys(kind)


@cache
def _slurm_keys(kind: Any) -> Mapping[str, SlurmKey]:
    notes = {name: getattr(hint, "__metadata__", ()) for name, hint in hints_of(kind).items()}
    return {name: note for name, found in notes.items() for note in found if isinstance(note, SlurmKey)}


def listed(values: Iterable[str]) -> str:
    """Return the values of a key in one text, the first few of many."""
    found = list(values)
    more = f"; and {len(found) - _MOST_SHOWN:,} more" if len(found) > _MOST_SHOWN else ""
    return "; ".join(found[:_MOST_SHOWN]) + more


def _tables(rules: SiteRules) -> Iterator[Declared]:
    yield from (rules.priority, rules.scheduler, rules.preemption)
    for many in (rules.qos, rules.accounts, rules.users, rules.partitions, rules.nodes, rules.reservations):
        yield from many


def _said(holds: SlurmKey, value: Any, default: Any) -> Iterator[tuple[str, str, str]]:
    """Yield key, effect and value of what a field says and no replay knows."""
    if value == default:
        return
    if holds.key == "Gres":  # how many is known, which is not
        typed = ",".join(f"{name}={count}" for name, count in value.items() if name.startswith("gpu:"))
        if typed:
            yield "Gres: type", holds.left_out, typed
    elif holds.left_out:
        yield holds.key, holds.left_out, _text(value)
    elif isinstance(value, Mapping):
        for name, amount in value.items():
            if name not in KNOWN_TRES:
                yield f"{holds.key}: {name}", OTHER_TRES, f"{amount:g}"


@cache
def _defaults(kind: Any) -> Mapping[str, Any]:
    return {
        each.name: each.default_factory() if each.default_factory is not MISSING else each.default
        for each in fields(kind)
    }


def _of(table: Declared) -> str:
    named = getattr(table, "name", None) or ",".join(getattr(table, "names", ()))
    return f"{table.title} {named}: " if named else ""


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ",".join(f"{name}={amount:g}" for name, amount in value.items())
    return (
        ",".join(value)
        if isinstance(value, tuple)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )
