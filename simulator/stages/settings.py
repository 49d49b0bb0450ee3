"""What the stages' settings have in common: frozen, flat, checked when made."""

from dataclasses import dataclass, fields

from foundation.errors import BadInputError


@dataclass(frozen=True)
class StageSettings:
    """Base of the stages' settings; a policy's own settings inherit from those of each stage that it uses."""

    def __post_init__(self) -> None:
        """Refuse numbers that are negative, infinite or not numbers; raises BadInputError."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, (int, float)) and not 0 <= value < float("inf"):
                raise BadInputError(f"{field.name} is {value!r}.", remedy="Use 0 or more.")
