"""The gate's verdict as data: what was decided, on which figures, under which assumptions.

`Verdict.digest()` leaves out the one figure that differs between two runs of the same release, the measured
decision latency; whether it passed its limit stays in. Two validations of one release on one window agree.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from foundation.errors import BadInputError

# 1: without `site_order` and `grade`; 2: with them. To change the format: raise FORMAT_VERSION, and keep
# reading the older ones here.
FORMAT_VERSION = 2
_READ = (1, 2)
LATENCY = "decision_latency_ms"
PRICE = "price_in_mean_jct"
PROVING_WINDOW = "window_with_a_queue"
GRADE = "grade_of_replayed_waits"
Row = dict[str, str | int | float | bool | None]


@dataclass(frozen=True, slots=True)
class Constraint:
    """One thing a challenger may not do, whatever the objective says.

    `passed` is None where the log or the run gives nothing to measure: then it neither passes nor blocks, and
    `sentence` says why.
    """

    name: str
    unit: str
    challenger: float | None
    reference: float | None
    limit: float | None
    passed: bool | None
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Approved or refused, and every figure behind it. Deterministic for the same results, rules and seed.

    `site_order` is the change of what counts against the site's order, as `objective` is against the
    reference; None where nothing could be compared. `grade` is that of the site's order's replayed waits
    beside the log's (`WaitGrade.to_data`). Both are None in verdicts of before they were made.
    """

    approved: bool
    sentence: str = ""
    challenger: str
    reference: str
    objective: Row
    constraints: tuple[Constraint, ...]
    comparisons: tuple[Row, ...] = ()
    policies: tuple[Row, ...] = ()
    assumptions: tuple[str, ...] = ()
    rules: dict[str, Any]
    subject: dict[str, Any]
    site_order: Row | None = None
    grade: dict[str, Any] | None = None

    @property
    def failed(self) -> tuple[Constraint, ...]:
        """The constraints that block."""
        return tuple(c for c in self.constraints if c.passed is False)

    @property
    def not_measured(self) -> tuple[Constraint, ...]:
        """The constraints that nothing could be measured for."""
        return tuple(c for c in self.constraints if c.passed is None)

    @property
    def wins(self) -> tuple[str, ...]:
        """The policies that were worse than the challenger, beyond the interval."""
        return tuple(str(row["policy"]) for row in self.comparisons if row["outcome"] == "better")

    @property
    def losses(self) -> tuple[str, ...]:
        """The policies that were better than the challenger, beyond the interval."""
        return tuple(str(row["policy"]) for row in self.comparisons if row["outcome"] == "worse")

    @property
    def study(self) -> str | None:
        """The rules that were stated for a what-if, in words; None for a verdict by the release's own."""
        return self.subject.get("study")

    def as_study(self, stated: Mapping[str, Any]) -> "Verdict":
        """The same decision as a what-if by other rules: it says so, and is never recorded as a verdict."""
        rules = ", ".join(f"{name} = {value}" for name, value in sorted(stated.items()))
        sentence = f"A study, not the verdict, of what follows from {rules}. {self.sentence}"
        return replace(self, sentence=sentence, subject={**self.subject, "study": rules})

    def to_dict(self) -> dict[str, Any]:
        """JSON types and finite numbers only; raises BadInputError for a number that is not finite."""
        data = {"format_version": FORMAT_VERSION, **asdict(self)}
        data["constraints"] = [asdict(c) for c in self.constraints]
        for key in ("comparisons", "policies", "assumptions"):
            data[key] = list(data[key])
        _require_finite(data, "verdict")
        return data | {"losses": list(self.losses), "digest": self.digest()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Verdict":
        """The verdict again; raises BadInputError for an unknown format version or a missing part."""
        if data.get("format_version") not in _READ:
            raise BadInputError(
                f"A verdict of format version {data.get('format_version')!r} cannot be read.",
                remedy=f"This program reads versions {_READ[0]} to {FORMAT_VERSION}; validate the release "
                "again.",
            )
        try:
            return cls(
                approved=bool(data["approved"]),
                sentence=str(data["sentence"]),
                challenger=str(data["challenger"]),
                reference=str(data["reference"]),
                objective=dict(data["objective"]),
                constraints=tuple(Constraint(**item) for item in data["constraints"]),
                comparisons=tuple(dict(item) for item in data["comparisons"]),
                policies=tuple(dict(item) for item in data["policies"]),
                assumptions=tuple(str(item) for item in data["assumptions"]),
                rules=dict(data["rules"]),
                subject=dict(data["subject"]),
                site_order=data.get("site_order"),
                grade=data.get("grade"),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BadInputError(
                f"A verdict lacks or misnames a part: {error}.", remedy="Validate the release again."
            ) from error

    def to_json(self) -> str:
        """The text of verdict.json."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True, allow_nan=False) + "\n"

    def digest(self) -> str:
        """sha256 (hex) over everything but the measured decision latency."""
        hidden = tuple(_without_latency(c) for c in self.constraints)
        data = asdict(replace(self, constraints=hidden))
        _require_finite(data, "verdict")
        text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()


def _without_latency(constraint: Constraint) -> Constraint:
    return replace(constraint, challenger=None, sentence="") if constraint.name == LATENCY else constraint


def _require_finite(value: Any, place: str) -> None:
    if isinstance(value, Mapping):
        for key, item in value.items():
            _require_finite(item, f"{place}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _require_finite(item, f"{place}[{index}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise BadInputError(f"{place} is {value!r}.", remedy="A verdict holds finite numbers or null.")
