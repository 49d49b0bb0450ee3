"""The table of a page on time limits: what advice saves and which jobs it kills, by rule, all measured."""

from collections.abc import Mapping, Sequence

from foundation.markdown import markdown_table, number
from lucid_models.evaluation.measures import Row

_COLUMNS = {
    "ratio_before": "limit / run time asked",
    "ratio_after": "advised",
    "killed_pct": "killed %",
    "used_up_pct": "of which had used up their own %",
    "lowered_pct": "lowered %",
    "limit_time_pct": "time asked for %",
}
_DECIMALS = {"lowered_pct": 0, "limit_time_pct": 0}


def limit_tables(rows: Sequence[Row]) -> Mapping[str, str]:
    """Return the tables by the markers that they stand between."""
    return {
        f"limits of {group}": markdown_table(
            ("rule", "said at", *_COLUMNS.values(), "jobs"),
            [
                [
                    row["model"],
                    row["said_at"],
                    *(number(row[name], _DECIMALS.get(name, 2)) for name in _COLUMNS),
                    number(row["jobs"], 0),
                ]
                for row in rows
                if row["group"] == group
            ],
        )
        for group in dict.fromkeys(row["group"] for row in rows)
    }
