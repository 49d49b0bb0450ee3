"""The tables of a page on waits: forecasts of waits by model and by group of jobs, all measured."""

from collections.abc import Mapping, Sequence

from experiments.model_quality.release_waits import ReleaseWaits
from foundation.markdown import markdown_table, number
from lucid_models.evaluation.measures import Row

_COLUMNS = ("MSE of log10", "within x2 %", "within x3 %", "P50 covers %", "P90 covers %", "rows")


def wait_tables(rows: Sequence[Row], groups: Sequence[Row]) -> Mapping[str, str]:
    """Return the tables by the markers that they stand between."""
    judged = [row for row in rows if "mse_log10" in row]
    return {
        "waits by model": markdown_table(
            ("model", *_COLUMNS), [[row["model"], *_cells(row)] for row in judged]
        ),
        "waits by group": markdown_table(
            ("group", *_COLUMNS), [[row["group"], *_cells(row)] for row in groups]
        ),
    }


def release_table(rows: Sequence[ReleaseWaits]) -> str:
    """Return the table of a model that learned once, by `release_waits`."""
    columns = ("days to", "model", "mean error of log10", "P90 covers %", "waits judged", "training, CPU s")
    return markdown_table(
        columns,
        [
            [
                row.until,
                row.model,
                number(row.mae_log10, 3),
                number(None if row.coverage_p90 is None else 100 * row.coverage_p90, 1),
                number(row.waits, 0),
                number(row.fit_s, 0),
            ]
            for row in rows
        ],
    )


def _cells(row: Row) -> list[str]:
    shares = ("within_x2", "within_x3", "coverage_p50", "coverage_p90")
    return [
        number(row["mse_log10"], 3),
        *(number(100 * row[name], 1) for name in shares),
        number(row["rows"], 0),
    ]
