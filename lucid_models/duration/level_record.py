"""What the search for levels measured, as rows that people read (`level_search` makes the record)."""

from collections.abc import Mapping, Sequence
from typing import Any

from foundation.markdown import NO_VALUE, markdown_table
from lucid_models.duration.levels import level_parts, part_words


def level_words(level: str) -> str:
    """`user x time limit`, `all jobs`."""
    return " x ".join(map(part_words, level_parts(level))) or "all jobs"


def level_rows(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row a chosen level, in the order in which they were chosen: {jobs_alike_in, keys, mae_log10, gain}.

    `mae_log10` is the error of the search's own simple prediction once the level is known, `gain` by how
    much that lowered it; the first row is what the mean of all jobs says. Empty where nothing was tried.
    """
    if not record.get("chosen"):
        return []
    error = float(record["error_of_all_jobs"])
    rows = [{"jobs_alike_in": level_words("all"), "keys": 1, "mae_log10": error, "gain": None}]
    for level in record["chosen"]:
        error -= level["gain"]
        words = level_words(level["level"])
        rows.append(
            {"jobs_alike_in": words, "keys": level["keys"], "mae_log10": error, "gain": level["gain"]}
        )
    return rows


def level_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a Markdown table."""
    cells = [
        (row["jobs_alike_in"], f"{row['keys']:,}", _error(row["mae_log10"]), _error(row["gain"]))
        for row in rows
    ]
    return markdown_table(("jobs alike in", "keys", "MAE of log10", "gain"), cells)


def _error(value: float | None) -> str:
    return NO_VALUE if value is None else f"{value:.4f}"
