"""The errors that the product raises on purpose.

LucidError
├── BadInputError            a file, a row or a value that cannot be used
│   ├── UnknownNameError     a name that is not in a catalogue; lists what is
│   └── TooManyBadRowsError  more rows of a log are bad than may be: most likely another format
├── NotFoundError            a table, a model or a release that is not there
├── HalfWrittenError         tables that a writer began to change and did not end
├── ValidationFailedError    a table failed its expectations
├── ReleaseRefusedError      a release that may not be published or loaded
├── NotAllowedError          a person who may not do what was asked
├── ServiceRefusedError      MLflow answered, and will not do what it was asked: asking again changes nothing
├── DiskError                a disk that is full, read-only or failing; memory that is not there
└── ServiceUnavailableError  MLflow, Airflow or storage did not answer
    └── ClusterBusyError     another process writes the cluster's tables
        └── ChangedWhileReadError    it wrote them while they were read
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


class LucidError(Exception):
    """An error; its message names the value, the place and the remedy."""

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(f"{message} {remedy}" if remedy else message)
        self.remedy = remedy

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by state: the constructors of subclasses take other arguments."""
        return Exception.__new__, (type(self), *self.args), vars(self)

    def advise(self, remedy: str) -> None:
        """Add to the message what else may help."""
        self.args = (f"{self} {remedy}",)
        self.remedy = f"{self.remedy} {remedy}" if self.remedy else remedy


class BadInputError(LucidError):
    """A file, a row or a value cannot be used."""


class UnknownNameError(BadInputError):
    """A name is not in a catalogue."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        super().__init__(f"Unknown {kind} {name!r}.", remedy=f"Choose one of: {', '.join(sorted(known))}.")


def check_names(kind: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raise UnknownNameError for the first of the names that is not known."""
    catalogue = list(known)
    for name in names:
        if name not in catalogue:
            raise UnknownNameError(kind, name, catalogue)


@dataclass(frozen=True)
class BadRow:
    """One refused row, to be shown: its number from 1 on, why, its column and value (if any), its text."""

    row: int
    reason: str
    column: str | None
    value: str | None
    text: str


class TooManyBadRowsError(BadInputError):
    """More rows of a log are bad than may be.

    `judged` rows were looked at, `quarantined` of them are bad; `reasons` counts these, the commonest first,
    and `example` is the first row with the commonest.
    """

    def __init__(
        self,
        message: str,
        *,
        remedy: str,
        judged: int,
        quarantined: int,
        reasons: Mapping[str, int],
        example: BadRow | None,
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.judged = judged
        self.quarantined = quarantined
        self.reasons = dict(reasons)
        self.example = example


class NotFoundError(LucidError):
    """A table, a model or a release is not there."""


class HalfWrittenError(LucidError):
    """A writer began to change a cluster's tables and did not end."""


class ValidationFailedError(LucidError):
    """A table failed its expectations."""


class ReleaseRefusedError(LucidError):
    """A release may not be published or loaded."""


class NotAllowedError(LucidError):
    """A person may not do what was asked."""


class ServiceUnavailableError(LucidError):
    """A service that the command needs did not answer."""


class ServiceRefusedError(LucidError):
    """A service answered, and will not do what it was asked."""


class DiskError(LucidError):
    """The machine, not the input, is in the way: a full, read-only or failing disk."""


class ClusterBusyError(ServiceUnavailableError):
    """Another process writes the cluster's tables."""


class ChangedWhileReadError(ClusterBusyError):
    """Another process wrote the cluster's tables while they were read."""
