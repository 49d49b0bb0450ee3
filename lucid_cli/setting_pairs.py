"""Options of the form NAME=VALUE, read alike by every command."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from foundation import strict_json
from foundation.errors import BadInputError
from foundation.strict_json import StrictJsonError

Value = TypeVar("Value")


def _split(pairs: Iterable[str] | None, option: str, example: str) -> Iterable[tuple[str, str]]:
    for pair in pairs or ():
        name, sign, value = pair.partition("=")
        if not (sign and name.strip()):
            raise BadInputError(
                f"{option} {pair!r} is not NAME=VALUE.", remedy=f"Write for example {example}."
            )
        yield name.strip(), value


def _json_or_text(text: str) -> object:
    try:
        value: object = strict_json.loads(text, constants=True)
    except StrictJsonError:
        return text
    return value


def named_values(pairs: Iterable[str] | None, option: str, example: str) -> dict[str, object]:
    """Read NAME=VALUE pairs; a value is JSON where it can be read as such (1, 0.5, true), else text.

    Raises BadInputError, which shows the example, for what is no such pair.
    """
    return {name: _json_or_text(value) for name, value in _split(pairs, option, example)}


def named_texts(pairs: Iterable[str] | None, option: str, example: str) -> dict[str, str]:
    """Read NAME=TEXT pairs. Raises BadInputError, which shows the example, for what is no such pair."""
    return dict(_split(pairs, option, example))


def value_lists(pairs: Iterable[str] | None, option: str, example: str) -> dict[str, list[Any]]:
    """Read NAME=V,V pairs; a setting that is named twice has all the values.

    Raises BadInputError, which shows the example, for what is no such pair or has no value.
    """
    from pipeline.studies.sweeps.runs import values_of

    lists: dict[str, list[Any]] = {}
    for name, text in _split(pairs, option, example):
        values = values_of(text)
        if not values:
            raise BadInputError(f"{option} {name}= has no value.", remedy=f"Write for example {example}.")
        lists.setdefault(name, []).extend(values)
    return lists


def by_policy(values: Mapping[str, Value]) -> dict[str, dict[str, Value]]:
    """Return settings named POLICY.NAME by their policy; raises BadInputError for a name without one."""
    settings: dict[str, dict[str, Value]] = {}
    for key, value in values.items():
        policy, dot, name = key.partition(".")
        if not (dot and policy and name):
            raise BadInputError(
                f"--setting {key!r} is not POLICY.NAME=VALUE.",
                remedy="Write for example lucid.sharing=apathetic.",
            )
        settings.setdefault(policy, {})[name] = value
    return settings
