"""What the messages of the live scheduler are made of: their base classes, and the bounds of their values."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

_LAST_TIME_S = 253_402_300_799.0  # the end of the year 9999

Name = Annotated[str, Field(min_length=1, max_length=4_096)]
Text = Annotated[str, Field(max_length=65_536)]
Time = Annotated[float, Field(gt=0, le=_LAST_TIME_S)]
Seconds = Annotated[float, Field(ge=0, le=_LAST_TIME_S)]
Gpus = Annotated[int, Field(ge=0, le=1_000_000)]
Count = Annotated[int, Field(ge=0, le=2**53)]


class Message(BaseModel):
    """A message: its values never change. Of an answer, fields that a later version 1 added are left out."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    def with_changes(self, **values: Any) -> Self:
        """Return it with other values, as `dataclasses.replace` does; raises TypeError for other names."""
        if unknown := values.keys() - type(self).model_fields.keys():
            raise TypeError(f"{type(self).__name__} has no fields {sorted(unknown)}")
        return self.model_copy(update=values)


class Pushed(Message):
    """A message to the service: a field that it does not know is refused by name, since it may be a slip."""

    model_config = ConfigDict(extra="forbid")
