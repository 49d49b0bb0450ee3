"""JSON from outside, read so that there is one way to read it.

`json.loads` takes the last of two equal keys, which another reader may read as the first; reads NaN and
Infinity, which are not JSON; and ends with a RecursionError, at a depth that depends on the caller, where
arrays are nested without end.
"""

import json
from typing import Any, NoReturn

MOST_LEVELS = 64
MOST_BYTES = 256 * 1024 * 1024
_NESTED = frozenset({dict, list})


class StrictJsonError(json.JSONDecodeError):
    """A text is no JSON, or JSON that readers may read differently or cannot bear."""

    def __init__(self, msg: str, doc: str = "", pos: int = 0) -> None:
        super().__init__(msg, doc, pos)

    def __str__(self) -> str:
        return self.msg


def loads(
    payload: bytes | str,
    *,
    most_bytes: int = MOST_BYTES,
    most_levels: int = MOST_LEVELS,
    constants: bool = False,
) -> Any:
    """Return the document of a text (bytes: UTF-8) with arrays and objects nested at most so deep.

    With `constants` NaN and Infinity are numbers. Raises StrictJsonError (a ValueError), which says what is
    wrong and leaves it to the caller to say of what.
    """
    if len(payload) > most_bytes:
        raise StrictJsonError(f"it holds {len(payload):,} bytes, more than the {most_bytes:,} that it may")
    try:
        text = payload if isinstance(payload, str) else payload.decode("utf-8")
        document = json.loads(
            text, object_pairs_hook=_object, parse_constant=float if constants else _refuse_constant
        )
    except StrictJsonError:
        raise
    except RecursionError:
        raise _too_deep(most_levels) from None
    except (ValueError, MemoryError) as error:
        raise StrictJsonError(str(error) or type(error).__name__) from error
    level: list[Any] = [[document]]
    for _ in range(most_levels + 1):
        level = [
            value
            for each in level
            for value in (each.values() if type(each) is dict else each)
            if type(value) in _NESTED
        ]
        if not level:
            return document
    raise _too_deep(most_levels)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    names = [name for name, _ in pairs]
    twice = next(name for name in names if names.count(name) > 1)
    raise StrictJsonError(f"the key {twice[:100]!r} stands twice in one object")


def _refuse_constant(word: str) -> NoReturn:
    raise StrictJsonError(f"{word} is not a number of JSON")


def _too_deep(most_levels: int) -> StrictJsonError:
    return StrictJsonError(f"it is nested deeper than {most_levels} levels")
