"""Where the live scheduler's settings and state are: a TOML file, or what `dataclasses.asdict` made of it.

A table with an adapter's name names the adapter, and holds the adapter's own settings; one with a part's name
holds those of the part (`capability.py`).
"""

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from foundation.errors import BadInputError, NotFoundError, UnknownNameError
from foundation.outside_names import read_regular
from foundation.parts import lacking
from foundation.private_files import private_folder
from live_scheduler.adapters import adapter_kind, adapter_names
from live_scheduler.capability import capabilities
from live_scheduler.live_settings import LiveSettings, checked_values
from lucid_models.signing.trust import TRUST_FILE, TRUST_VARIABLE, UNSIGNED

_GONE = "grpc_port"


def read_live_settings(
    path: Path | None, *, find_cluster: Callable[[str], str] | None = None, **given: Any
) -> LiveSettings:
    """Return the settings of a TOML file with `given` ones (those that are not None) in their place.

    `find_cluster` names the cluster that follows an alias, where neither does.

    Raises NotFoundError without the file, BadInputError for a value, UnknownNameError for a name.
    """
    document: dict[str, Any] = {}
    if path is not None:
        try:
            document = tomllib.loads(read_regular(path).decode("utf-8"))
        except FileNotFoundError:
            raise NotFoundError(f"There are no settings {path}.") from None
        except (OSError, ValueError, RecursionError) as error:
            raise BadInputError(f"The settings {path} cannot be read: {error}.") from error
        document["trust"] = _trust_beside(path, document.get("trust", ""))
        if _GONE in document:
            raise BadInputError(
                f"The setting {_GONE} of {path} is gone: the live scheduler answers over HTTP alone.",
                remedy="Take it out; http_port fixes the port, and docs/live_answers.md has the requests.",
            )
    document |= {key: value for key, value in given.items() if value is not None}
    if find_cluster is not None and "cluster" not in document:
        document["cluster"] = find_cluster(str(document.get("release", LiveSettings.release)))
    settings = settings_from(document)
    adapter_kind(settings.adapter).check(settings)
    return settings


def _trust_beside(path: Path, trust: Any) -> Any:
    """The trust file of a settings file: a relative path begins beside it, and so does `trust.json`."""
    if trust == "" and TRUST_VARIABLE not in os.environ and (path.parent / TRUST_FILE).exists():
        trust = TRUST_FILE
    return str(path.parent / trust) if isinstance(trust, str) and trust not in ("", UNSIGNED) else trust


def settings_from(document: Mapping[str, Any]) -> LiveSettings:
    """Return settings by name; raises BadInputError, UnknownNameError. The adapter's own are not checked.

    Raises NotFoundError for a table of a part that is not installed. What an earlier version left for the
    dead man's switch may name the port of gRPC, which is not read.
    """
    document = {name: value for name, value in document.items() if name != _GONE}
    values = checked_values(LiveSettings, _with_adapter(_with_tables(document)))
    if "cluster" not in values:
        raise BadInputError("The live scheduler's cluster has no name.", remedy='Set cluster = "...".')
    return LiveSettings(**values)


_OWN = [field.name for field in fields(LiveSettings) if field.name != "tables"]


def _with_tables(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the document with the tables of parts in `tables`, each checked."""
    # Settings that an earlier version left for the dead man's switch say null where there is no table.
    flat = {name: value for name, value in document.items() if value is not None or name in _OWN}
    flat |= flat.pop("tables", {})
    others = [name for name in flat if name not in _OWN]
    if not others:
        return flat
    kinds = {name: each.Settings for name, each in capabilities().items() if each.Settings is not None}
    tables = {name: _table(name, flat.pop(name), kinds[name]) for name in others if name in kinds}
    return {**flat, "tables": tables}


def _table(name: str, value: Any, kind: type) -> Any:
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise BadInputError(f"{name} is {value!r}.", remedy="Give a table.")
    return kind(**checked_values(kind, value))


def _with_adapter(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the document with an adapter's table as `adapter` and `adapter_settings`."""
    own = [*_OWN, "tables"]
    tables = {name: value for name, value in document.items() if name not in own}
    if not tables:
        return document
    names = adapter_names()
    for name, table in tables.items():
        if name not in names:
            others = [*_OWN, *(name for name, each in capabilities().items() if each.Settings), *names]
            raise lacking().get(f"setting {name}") or UnknownNameError(
                "setting of the live scheduler:", name, others
            )
        if not isinstance(table, Mapping):
            raise BadInputError(f"{name} is {table!r}.", remedy="Give a table.")
    rest = {name: value for name, value in document.items() if name in own}
    adapter = rest.get("adapter") or next(iter(tables))
    if tables.keys() != {adapter}:
        raise BadInputError(
            f"The adapter is {adapter!r}, and there are settings for {', '.join(map(repr, tables))}.",
            remedy="Keep the table of one adapter.",
        )
    return {**rest, "adapter": adapter, "adapter_settings": tables[adapter]}


def state_folder(state_dir: Path, cluster: str) -> Path:
    """Return the folder of a cluster's live scheduler below `state_dir`, made for its owner only."""
    return private_folder(state_dir / "live" / cluster)
