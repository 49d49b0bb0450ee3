"""What a suite of expectations is made of; importing it needs no Great Expectations.

A check about rows sets the failing rows aside (severity warning) as long as they are few; a check about the
table stops the run (severity critical). Where rows cannot be set aside, as in a model's predictions, row
checks are critical too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class CheckedUnit(StrEnum):
    """What a check judges."""

    ROW = "row"
    TABLE = "table"


class Severity(StrEnum):
    """What a failed check means, in Great Expectations' words."""

    WARNING = "warning"  # the failing rows go to quarantine, the table passes
    CRITICAL = "critical"  # the table fails


@dataclass(frozen=True)
class ExpectationCheck:
    """One expectation: its name here, its class in Great Expectations and that class's arguments."""

    name: str
    expectation: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    level: CheckedUnit = CheckedUnit.ROW
    severity: Severity = Severity.WARNING

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that the check reads."""
        single = [self.arguments[key] for key in ("column", "column_A", "column_B") if key in self.arguments]
        return (*single, *self.arguments.get("column_list", ()))


@dataclass(frozen=True)
class Suite:
    """The expectations of one table.

    `required` columns must be there; checks on other columns apply when the column is there. When more than
    `failing_share` of the rows fail, the table fails instead of losing them.
    """

    name: str
    required: tuple[str, ...]
    checks: tuple[ExpectationCheck, ...]
    failing_share: float

    def __post_init__(self) -> None:
        names = [check.name for check in self.checks]
        if len(set(names)) != len(names):
            raise ValueError(f"suite {self.name} names a check twice: {names}")


def present(column: str, severity: Severity = Severity.WARNING) -> ExpectationCheck:
    """Every row has a value."""
    return ExpectationCheck(
        f"{column}_is_present", "ExpectColumnValuesToNotBeNull", {"column": column}, severity=severity
    )


def between(
    column: str,
    low: object,
    high: object,
    *,
    name: str | None = None,
    above_low: bool = False,
    severity: Severity = Severity.WARNING,
) -> ExpectationCheck:
    """Every value that is there lies in [low, high], or in (low, high] with `above_low`; infinities never
    do.
    """
    arguments = {"column": column, "min_value": low, "max_value": high, "strict_min": above_low}
    return ExpectationCheck(
        name or f"{column}_in_range", "ExpectColumnValuesToBeBetween", arguments, severity=severity
    )


def one_of(
    column: str, values: tuple[object, ...], severity: Severity = Severity.WARNING
) -> ExpectationCheck:
    """Every value that is there is one of the values."""
    arguments = {"column": column, "value_set": list(values)}
    return ExpectationCheck(f"{column}_is_known", "ExpectColumnValuesToBeInSet", arguments, severity=severity)


def matches(column: str, pattern: str, name: str) -> ExpectationCheck:
    """Every value that is there matches the regular expression."""
    return ExpectationCheck(name, "ExpectColumnValuesToMatchRegex", {"column": column, "regex": pattern})


def not_less(larger: str, smaller: str, name: str) -> ExpectationCheck:
    """In every row that has both, the first column's value is at least the second's."""
    arguments = {
        "column_A": larger,
        "column_B": smaller,
        "or_equal": True,
        "ignore_row_if": "either_value_is_missing",
    }
    return ExpectationCheck(name, "ExpectColumnPairValuesAToBeGreaterThanB", arguments)


def has_rows(fewest: int = 1) -> ExpectationCheck:
    """The table has at least this many rows."""
    return ExpectationCheck(
        "table_has_rows",
        "ExpectTableRowCountToBeBetween",
        {"min_value": fewest},
        level=CheckedUnit.TABLE,
        severity=Severity.CRITICAL,
    )


def mostly_known(column: str, share: float) -> ExpectationCheck:
    """At least this share of rows has a value."""
    return ExpectationCheck(
        f"{column}_is_mostly_known",
        "ExpectColumnProportionOfNonNullValuesToBeBetween",
        {"column": column, "min_value": share},
        level=CheckedUnit.TABLE,
        severity=Severity.CRITICAL,
    )


def unique_together(name: str, *columns: str) -> ExpectationCheck:
    """No two rows agree in all these columns."""
    arguments: Mapping[str, Any] = {"column_list": list(columns)}
    expectation = "ExpectCompoundColumnsToBeUnique"
    if len(columns) == 1:
        arguments, expectation = {"column": columns[0]}, "ExpectColumnValuesToBeUnique"
    return ExpectationCheck(name, expectation, arguments, level=CheckedUnit.TABLE, severity=Severity.CRITICAL)


def at_least(column: str, highest: float, name: str) -> ExpectationCheck:
    """The column's largest value is at least this."""
    arguments = {"column": column, "min_value": highest}
    return ExpectationCheck(
        name, "ExpectColumnMaxToBeBetween", arguments, level=CheckedUnit.TABLE, severity=Severity.CRITICAL
    )
