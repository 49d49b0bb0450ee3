"""Messages of the schema as protobuf messages and back, field by field by their names."""

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import ValidationError

from live_scheduler.service import scheduler_pb2
from live_scheduler.service.problems import invalid
from live_scheduler.service.schema import Message

M = TypeVar("M", bound=Message)


def to_protobuf(message: Message) -> Any:
    """Return the protobuf message of the same name and content."""
    made = protobuf_class(type(message).__name__)()
    _fill(made, message)
    return made


def from_protobuf(made: Any, kind: type[M]) -> M:
    """Return a protobuf message as the schema's; raises InvalidMessageError that names the field."""
    try:
        return kind.model_validate(_plain(made))
    except ValidationError as error:
        raise invalid(kind.__name__, error) from None


def protobuf_class(name: str) -> Any:
    """Return the protobuf class of a message by its name."""
    return getattr(scheduler_pb2, name)


def _fill(made: Any, message: Message) -> None:
    made.SetInParent()
    for name in type(message).model_fields:
        value = getattr(message, name)
        if value is None:
            continue
        if isinstance(value, Message):
            _fill(getattr(made, name), value)
        elif isinstance(value, tuple):
            several = getattr(made, name)
            if value and isinstance(value[0], Message):
                for item in value:
                    _fill(several.add(), item)
            else:
                several.extend(value)
        elif isinstance(value, Mapping):
            getattr(made, name).update(value)
        else:
            setattr(made, name, value)


def _plain(made: Any) -> dict[str, Any]:
    """The fields that are there; without those that know presence and are absent."""
    values: dict[str, Any] = {}
    for name, several, message, mapping, presence in _fields(made.DESCRIPTOR):
        if presence and not made.HasField(name):
            continue
        value = getattr(made, name)
        if mapping:
            values[name] = dict(value)
        elif several:
            values[name] = [_plain(item) for item in value] if message else list(value)
        else:
            values[name] = _plain(value) if message else value
    return values


@cache
def _fields(descriptor: Any) -> tuple[tuple[str, bool, bool, bool, bool], ...]:
    """Each field's name, and whether it is repeated, a message, a map, and knows presence."""
    return tuple(
        (
            field.name,
            bool(field.is_repeated),
            field.message_type is not None,
            field.message_type is not None and field.message_type.GetOptions().map_entry,
            bool(field.has_presence),
        )
        for field in descriptor.fields
    )
