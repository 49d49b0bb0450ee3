"""Tables of a declaration that check themselves by the types of their fields.

Known types: str, bool, int, float, datetime, a Literal, one of them or None, a tuple of one of them or of
tables, a mapping of names to numbers. Numbers are finite and not negative; `Between` narrows them. A whole
number is read as a float where the field is one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

from foundation.checked_settings import Between
from foundation.errors import BadInputError, UnknownNameError

_KINDS = {str: "a text", bool: "true or false", datetime: "a time with its zone, 2026-03-01T08:00:00Z"}


@dataclass(frozen=True, kw_only=True)
class Declared:
    """Base of the tables. `noun` is what a key of one is called; `title` begins a sentence on one."""

    noun: ClassVar[str] = "key"
    title: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Raise BadInputError for a value that its field does not allow."""
        for name, hint in hints_of(type(self)).items():
            value = _checked(f"{self._place()}{name}", hint, getattr(self, name))
            object.__setattr__(self, name, value)

    def _place(self) -> str:
        named = getattr(self, "name", None)
        title = f"{self.title} {named!r}" if isinstance(named, str) and named else self.title
        return f"{title}: " if title else ""

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Return the table of plain data, as of TOML; what it lacks stays as it is by default.

        Raises UnknownNameError for a key that there is not, BadInputError for a value or one that is missing.
        """
        hints = hints_of(cls)
        for key in data:
            if key not in hints:
                raise UnknownNameError(cls.noun, str(key), hints)
        required = [each.name for each in fields(cls) if _is_required(each)]
        for key in required:
            if key not in data:
                raise BadInputError(f"{cls.title or 'A table'} lacks {key}: {dict(data)!r:.200}.")
        return cls(**{key: _tables_of(key, hints[key], value) for key, value in data.items()})


def hints_of(kind: Any) -> Mapping[str, Any]:
    """Return the types of a table's fields, by name, in their order."""
    return _hints_of(kind)


@cache  # a site has tens of thousands of users
def _hints_of(kind: Any) -> Mapping[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {each.name: hints[each.name] for each in fields(kind)}


def plain(hint: Any) -> Any:
    """Return a type without its annotations."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def table_of(hint: Any) -> type[Declared] | None:
    """Return the kind of table that a field holds, one or many of; None for other fields."""
    hint = plain(hint)
    if get_origin(hint) is tuple:
        hint = get_args(hint)[0]
    return hint if isinstance(hint, type) and issubclass(hint, Declared) else None


def _is_required(each: Any) -> bool:
    from dataclasses import MISSING

    return each.default is MISSING and each.default_factory is MISSING


def _tables_of(key: str, hint: Any, value: Any) -> Any:
    kind = table_of(hint)
    if kind is None or isinstance(value, kind):
        return value
    if get_origin(plain(hint)) is not tuple:
        if not isinstance(value, Mapping):
            raise BadInputError(f"{key} is {value!r:.200}.", remedy=f"Write a table: [{key}].")
        return kind.from_data(value)
    if not isinstance(value, list | tuple):
        raise BadInputError(f"{key} is {value!r:.200}.", remedy=f"Write a list of tables: [[{key}]].")
    return tuple(each if isinstance(each, kind) else _tables_of(key, kind, each) for each in value)


def _checked(place: str, hint: Any, value: Any) -> Any:
    """Return a value as its field is declared to be. Raises BadInputError."""
    allowed = Between(0)
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
        allowed = next((note for note in notes if isinstance(note, Between)), allowed)
    kinds = get_args(hint) if isinstance(hint, UnionType) or get_origin(hint) is not None else (hint,)
    origin = get_origin(hint)
    if isinstance(hint, UnionType) or NoneType in kinds:
        if value is None:
            return None
        return _checked(
            place, Annotated[next(kind for kind in kinds if kind is not NoneType), allowed], value
        )
    if origin is Literal:
        if not isinstance(value, str) or value not in kinds:
            raise BadInputError(f"{place} is {value!r}.", remedy=f"Choose one of: {', '.join(kinds)}.")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise BadInputError(f"{place} is {value!r:.200}.", remedy="Write a list.")
        return tuple(_checked(place, kinds[0], each) for each in value)
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise BadInputError(f"{place} is {value!r:.200}.", remedy='Write a table: {"gres/gpu" = 4}.')
        return {
            str(name): _checked(f"{place}.{name}", kinds[1], value[name]) for name in sorted(map(str, value))
        }
    if hint in (int, float):
        return _number(place, value, allowed, whole=hint is int)
    if not isinstance(value, hint) or (hint is datetime and value.tzinfo is None):
        raise BadInputError(f"{place} is {value!r:.200}.", remedy=f"Write {_KINDS.get(hint, 'a table')}.")
    return value


def _number(place: str, value: Any, allowed: Between, *, whole: bool) -> int | float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not isfinite(value) or not allowed.low <= value <= allowed.high:
        kind = "whole number" if whole else "number"
        raise BadInputError(f"{place} is {value!r}.", remedy=f"Use a {kind} from {allowed}.")
    if not whole:
        return float(value)
    if value != int(value):
        raise BadInputError(f"{place} is {value!r}.", remedy=f"Use a whole number from {allowed}.")
    return int(value)
