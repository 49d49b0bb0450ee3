"""How well two measurements of the same things agree: what a measurement is judged by.

Two runs over the same device shall give the same order of utilisations and nearly the same speeds; a
configuration beside itself shall leave both copies equally fast.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from profiler_jobs.profile_table import ProfileSet

UTILISATION_RANK_MIN = 0.95
SPEED_DIFFERENCE_MAX = 0.03
SELF_PAIR_DIFFERENCE_MAX = 0.02


@dataclass(frozen=True)
class AgreementCheck:
    """A figure beside its limit (None: for information); `passed` is None where nothing can be said."""

    name: str
    value: float | None
    limit: float | None
    rows: int
    passed: bool | None


@dataclass(frozen=True)
class MeasurementComparison:
    """What two measurements (or one, for its pairs of equals) come to, with the rows that differ most."""

    checks: tuple[AgreementCheck, ...]
    furthest: tuple[dict[str, Any], ...]

    @property
    def agrees(self) -> bool:
        """Return whether nothing that could be checked failed, and something could be checked."""
        verdicts = [check.passed for check in self.checks if check.passed is not None]
        return bool(verdicts) and all(verdicts)

    def document(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        checks = [asdict(check) for check in self.checks]
        return {"agrees": self.agrees, "checks": checks, "furthest": list(self.furthest)}


def compare_profiles(first: ProfileSet, second: ProfileSet) -> MeasurementComparison:
    """Compare two measurements by what both hold, and the pairs of equals of each."""
    solo = first.solo.merge(second.solo, on="job_type", suffixes=("_a", "_b"))
    pairs = first.pairs.merge(second.pairs, on=["job_type_1", "job_type_2"], suffixes=("_a", "_b"))
    rank = None
    if len(solo) > 2:
        first_ranks, second_ranks = (solo[f"gpu_util_pct_{side}"].rank().to_numpy() for side in ("a", "b"))
        correlation = float(np.corrcoef(first_ranks, second_ranks)[0, 1])  # of ranks: Spearman's
        rank = None if math.isnan(correlation) else correlation
    apart = pd.DataFrame(
        {
            "task": [*solo["job_type"], *(pairs["job_type_1"] + " + " + pairs["job_type_2"])],
            "difference": [
                *_relative(solo["speed_a"], solo["speed_b"]),
                *np.maximum(
                    _relative(pairs["speed_1_a"], pairs["speed_1_b"]),
                    _relative(pairs["speed_2_a"], pairs["speed_2_b"]),
                ),
            ],
        }
    )
    alone = apart["difference"].to_numpy()[: len(solo)]
    together = np.concatenate(
        [_relative(pairs[f"speed_{side}_a"], pairs[f"speed_{side}_b"]) for side in (1, 2)]
    )
    furthest = apart.sort_values("difference", ascending=False, kind="stable").head(5)
    return MeasurementComparison(
        (
            AgreementCheck(
                "rank correlation of GPU utilisation",
                rank,
                UTILISATION_RANK_MIN,
                len(solo),
                None if rank is None else rank >= UTILISATION_RANK_MIN,
            ),
            _at_most("median difference of solo speeds", alone, SPEED_DIFFERENCE_MAX),
            _at_most("median difference of colocated speeds", together, SPEED_DIFFERENCE_MAX),
            *self_pair_checks(first, " (first)"),
            *self_pair_checks(second, " (second)"),
        ),
        tuple(
            {"task": str(task), "difference": float(gap)}
            for task, gap in zip(furthest["task"], furthest["difference"].to_numpy(), strict=True)
        ),
    )


def check_self_pairs(profiles: ProfileSet) -> MeasurementComparison:
    """Check the pairs of equals of one measurement."""
    equals = _self_pairs(profiles)
    apart = pd.Series(_apart(equals), index=equals["job_type_1"]).sort_values(ascending=False, kind="stable")
    names, gaps = apart.index.astype(str), apart.to_numpy(dtype=np.float64)
    furthest = tuple(
        {"task": name, "difference": float(gap)} for name, gap in zip(names[:5], gaps[:5], strict=True)
    )
    return MeasurementComparison(self_pair_checks(profiles, ""), furthest)


def self_pair_checks(profiles: ProfileSet, which: str) -> tuple[AgreementCheck, ...]:
    """Return how far the two copies of a configuration are apart: the median and the largest difference."""
    apart = _apart(_self_pairs(profiles))
    largest = float(apart.max()) if len(apart) else None
    return (
        _at_most(f"median difference within pairs of equals{which}", apart, SELF_PAIR_DIFFERENCE_MAX),
        AgreementCheck(
            f"largest difference within pairs of equals{which}",
            largest,
            None,
            len(apart),
            None,
        ),
    )


def comparison_lines(comparison: MeasurementComparison) -> list[str]:
    """Return the comparison for people."""
    words = {True: "ok", False: "FAILS", None: ""}
    lines = []
    for check in comparison.checks:
        sign = ">=" if check.name.startswith("rank") else "<="
        limit = "" if check.limit is None else f"{sign} {check.limit:g}, "
        value = "not measured" if check.value is None else f"{check.value:.4f}"
        lines.append(f"{words[check.passed]:>5}  {check.name}: {value} ({limit}{check.rows:,} rows)")
    lines += [f"       furthest: {row['task']}: {row['difference']:.2%}" for row in comparison.furthest]
    return lines


def _self_pairs(profiles: ProfileSet) -> pd.DataFrame:
    return profiles.pairs[profiles.pairs["job_type_1"] == profiles.pairs["job_type_2"]]


def _apart(pairs: pd.DataFrame) -> "np.ndarray[Any, np.dtype[np.float64]]":
    return _relative(pairs["speed_1"], pairs["speed_2"])


def _relative(
    first: "pd.Series[float]", second: "pd.Series[float]"
) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Return the difference of two speeds, relative to their mean."""
    first_values, second_values = first.to_numpy(dtype=np.float64), second.to_numpy(dtype=np.float64)
    return np.asarray(np.abs(first_values - second_values) / ((first_values + second_values) / 2))


def _at_most(name: str, apart: "np.ndarray[Any, np.dtype[np.float64]]", limit: float) -> AgreementCheck:
    value = float(np.median(apart)) if len(apart) else None
    return AgreementCheck(name, value, limit, len(apart), None if value is None else value <= limit)
