"""Settings that check themselves by what their fields are declared to be.

    @dataclass(frozen=True)
    class LoanSettings(CheckedSettings):
        noun = "setting of loans"
        headroom: Annotated[float, Between(0, 1)] = 0.02
        lend: Annotated[str, OneOf("way to lend", ("capacity", "demand"))] = "capacity"

A `Literal` is one of its words, and a number without a range is finite and not negative. A whole number is
read as what its field is declared to be, so that 60 and 60.0 are one setting, in files and digests too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import inf, isfinite
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, Self, Union, get_args, get_origin, get_type_hints

from foundation.errors import BadInputError, UnknownNameError

# Beyond it two whole numbers may be one float.
_EXACT = 2**53


@dataclass(frozen=True)
class Between:
    """A finite number from `low` to `high`; a whole one where the field is an int."""

    low: float
    high: float = inf

    def __str__(self) -> str:
        return f"{self.low:,.6g} on" if self.high == inf else f"{self.low:,.6g} to {self.high:,.12g}"


@dataclass(frozen=True)
class OneOf:
    """One of these names, each of which is a `noun` (for messages)."""

    noun: str
    names: tuple[str, ...]


def as_declared(settings: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of a class of settings with each number as its field is declared: 60 as 60.0 where that
    is a float, 2.0 as 2 where it is an int. What fits no declaration stays, for the class to refuse.
    """
    hints = get_type_hints(settings)
    return {name: _read_as(hints[name], value) if name in hints else value for name, value in values.items()}


def _read_as(declared: Any, value: Any) -> Any:
    kinds = get_args(declared) or (declared,)
    if isinstance(value, Mapping) and get_origin(declared) is Mapping:
        return {key: _read_as(kinds[-1], each) for key, each in value.items()}
    if isinstance(value, int) and not isinstance(value, bool) and float in kinds and int not in kinds:
        return float(value) if abs(value) <= _EXACT else value
    if isinstance(value, float) and value.is_integer() and int in kinds and float not in kinds:
        return int(value)
    return value


def refuse_misfits(settings: type[Any], values: Mapping[str, Any]) -> None:
    """Raise BadInputError for a value of another kind than its field is declared to be: a text for a number.

    Ranges, words and what a list holds are for the class to check.
    """
    hints = get_type_hints(settings)
    for name, value in values.items():
        if name in hints and not _fits(hints[name], value):
            kinds = [_KINDS[kind] for kind in (get_args(hints[name]) or (hints[name],)) if kind in _KINDS]
            remedy = f"Use {' or '.join(dict.fromkeys(kinds))}." if kinds else ""
            raise BadInputError(f"{name} is {value!r:.200}.", remedy=remedy)


_KINDS: dict[Any, str] = {float: "a number", int: "a whole number", bool: "true or false", str: "a text"}


def _fits(declared: Any, value: Any) -> bool:
    origin, kinds = get_origin(declared), get_args(declared)
    if origin in (Union, UnionType):
        # A list may also be written as a text, and one number is such a text: its class reads them.
        judged = all(kind in (int, float, bool, NoneType) for kind in kinds)
        return not judged or any(_fits(kind, value) for kind in kinds)
    if declared in (int, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if declared in (bool, str):
        return isinstance(value, declared)
    if declared is NoneType:
        return value is None
    if origin is Mapping:
        return isinstance(value, Mapping)
    if origin in (tuple, Sequence):
        return isinstance(value, list | tuple)
    return True


@dataclass(frozen=True)
class CheckedSettings:
    """Base of settings. `noun` says what one of them is called, `subject` begins a sentence on its value."""

    noun: ClassVar[str] = "setting"
    subject: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Raise BadInputError (UnknownNameError for a word) for a value that its field does not allow; read
        the others `as_declared`.
        """
        written = {field.name: getattr(self, field.name) for field in fields(self)}
        for field in fields(self):
            value = written[field.name]
            if get_origin(field.type) is Literal and value not in get_args(field.type):
                words = ", ".join(get_args(field.type))
                raise BadInputError(
                    f"{self.subject}{field.name} is {value!r}.", remedy=f"Choose one of: {words}."
                )
            kind, *rules = get_args(field.type) if hasattr(field.type, "__metadata__") else (field.type,)
            for rule in rules:
                if isinstance(rule, OneOf) and value not in rule.names:
                    raise UnknownNameError(rule.noun, str(value), rule.names)
                if isinstance(rule, Between):
                    self._check_number(field.name, value, rule, whole=kind is int)
            if not rules and isinstance(value, int | float) and not 0 <= value < inf:
                raise BadInputError(f"{self.subject}{field.name} is {value!r}.", remedy="Use 0 or more.")
            if not rules and kind in (int, float):
                self._check_number(field.name, value, Between(0), whole=kind is int)
        for name, value in as_declared(type(self), written).items():
            object.__setattr__(self, name, value)

    def _check_number(self, name: str, value: Any, allowed: Between, *, whole: bool) -> None:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if whole and isinstance(value, float):
            is_number = value.is_integer()
        if not is_number or not isfinite(value) or not allowed.low <= value <= allowed.high:
            kind = "whole number" if whole else "number"
            raise BadInputError(f"{self.subject}{name} is {value!r}.", remedy=f"Use a {kind} from {allowed}.")

    def to_data(self) -> dict[str, Any]:
        """Return the settings as a flat, JSON-able table."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Return the settings of such a table; what it lacks stays as it is by default.

        Raises UnknownNameError for a name that is no setting, BadInputError for a value that cannot be used.
        """
        names = [field.name for field in fields(cls)]
        for name in data:
            if name not in names:
                raise UnknownNameError(cls.noun, name, names)
        return cls(**data)
