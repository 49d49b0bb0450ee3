"""`site.toml`: what a site declares, for people to read and edit.

[priority], [scheduler] and [preemption] are written whole, with Slurm's key beside each of ours; of the lists
([[qos]], [[accounts]], [[users]], [[partitions]], [[nodes]], [[reservations]]) what differs from Slurm's
default. A key that is absent has Slurm's default, and "no limit" is a key that is absent.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from cluster_logs.site.declared import Declared, hints_of, table_of
from cluster_logs.site.rules import SiteRules, SlurmKey
from foundation.errors import BadInputError, NotFoundError
from foundation.outside_names import read_regular
from foundation.replaced_files import replace_file

_HEAD = """\
# A site's scheduling policy, as the policy `site` replays it.
# Times are in seconds; behind # stands Slurm's own key. A key that is absent has Slurm's default; a limit
# that is absent does not limit. [[ignored]] lists what was read and is not replayed.
"""
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_MOST_BYTES = 64 * 2**20


def read_site(path: Path) -> SiteRules:
    """Return what a file declares.

    Raises NotFoundError without the file, BadInputError naming file, key and value for what cannot be used.
    """
    try:
        text = read_regular(path, _MOST_BYTES).decode("utf-8")
        document = tomllib.loads(text)
    except FileNotFoundError:
        raise NotFoundError(f"There is no {path}.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise BadInputError(f"The site {path} cannot be read: {error}.") from error
    return site_from(document, str(path))


def site_from(document: Mapping[str, Any], place: str) -> SiteRules:
    """Return what plain data declares; `place` is where it came from, for messages."""
    try:
        return SiteRules.from_data(document)
    except BadInputError as error:
        raise BadInputError(f"{place}: {error}") from error


def write_site(rules: SiteRules, path: Path, *, mode: int = 0o644) -> None:
    """Write a declaration; reading it gives the same again. Raises OSError."""
    replace_file(path, site_text(rules), mode=mode)


def site_text(rules: SiteRules) -> str:
    """Return a declaration as the text of a site.toml: equal declarations are equal texts."""
    lines = [_HEAD]
    if rules.name:
        lines.append(f"name = {_text(rules.name)}\n")
    for key, hint in hints_of(SiteRules).items():
        if table_of(hint) is None:
            continue
        value = getattr(rules, key)
        if isinstance(value, Declared):
            lines += [f"[{key}]", *_keys(value, whole=True), ""]
            continue
        for each in value:
            lines += [f"[[{key}]]", *_keys(each, whole=False), ""]
    return "\n".join(lines)


def site_data(rules: SiteRules) -> dict[str, Any]:
    """Return a declaration as plain data (JSON-able, times as texts aside): what `site_from` reads."""
    return tomllib.loads(site_text(rules))


def _keys(table: Declared, *, whole: bool) -> Iterator[str]:
    hints = hints_of(type(table))
    for each in fields(table):
        value = getattr(table, each.name)
        if value is None or (not whole and value == _default(each)):
            continue
        notes = get_args(hints[each.name]) if get_origin(hints[each.name]) is Annotated else ()
        key = next((note.key for note in notes if isinstance(note, SlurmKey)), "") if whole else ""
        yield f"{each.name} = {_text(value)}{f'  # {key}' if key else ''}"


def _default(each: Any) -> Any:
    factory = each.default_factory
    return factory() if callable(factory) else each.default


def _text(value: Any) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_name(key)} = {_text(each)}" for key, each in value.items())
        return f"{{{inner}}}"
    return f"[{', '.join(map(_text, value))}]"


def _name(key: str) -> str:
    return key if _BARE.fullmatch(key) else _quoted(key)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(_escape(char) for char in escaped) + '"'


def _escape(char: str) -> str:
    return char if char.isprintable() and char != "\x7f" else f"\\U{ord(char):08X}"
