"""How a release answers about waits: its part `waits`, checked."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from foundation.errors import BadInputError, UnknownNameError


@dataclass(frozen=True)
class WaitAnswerSettings:
    """`least_jobs`: before so many jobs have shown how far the wait model and playing forward are off, the
    mode decides which of them speaks; `recent_jobs`: so many of the last ones count.
    """

    least_jobs: int = 30
    recent_jobs: int = 500

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 100_000:
                raise BadInputError(
                    f"The setting {name} of answers about waits is {value!r}.",
                    remedy="Give a whole number from 1 to 100,000.",
                )
        if self.least_jobs > self.recent_jobs:
            raise BadInputError(
                f"least_jobs is {self.least_jobs}, and only {self.recent_jobs} recent_jobs count.",
                remedy="Count as many jobs as are needed, or more.",
            )

    @classmethod
    def from_data(cls, settings: Mapping[str, Any]) -> "WaitAnswerSettings":
        """Of settings by name; raises UnknownNameError, and BadInputError for a bad value."""
        names = [field.name for field in fields(cls)]
        for name in settings:
            if name not in names:
                raise UnknownNameError("setting of answers about waits", name, names)
        return cls(**settings)

    def to_data(self) -> dict[str, Any]:
        """All settings by name, as a release pins them."""
        return asdict(self)
