"""`lucid evaluate waits` from the shell: its JSON, its page, and that every rival is asked the same."""

from pathlib import Path

import pytest

from experiments.model_quality.wait_rivals import slurm_row
from foundation.errors import BadInputError
from tests.command_line import Lucid
from tests.lucid_models.queue_logs import write_queue_log

MEASURES = {"mse_log10", "within_x2", "within_x3", "coverage_p50", "coverage_p90", "rows"}


@pytest.mark.slow  # all rivals are trained
def test_every_model_is_judged_by_the_same_rows(lucid: Lucid, tmp_path: Path) -> None:
    write_queue_log(tmp_path)
    slurm = tmp_path / "slurm.csv"
    slurm.write_text("true_start_time,estimate_start_time,diff_in_s\na,b,30\na,b,90\n")
    page = tmp_path / "page.md"
    names = ("waits by model", "waits by group")
    page.write_text("\n".join(f"<!-- {name}: begin -->\n<!-- {name}: end -->" for name in names))
    files = ("--jobs", tmp_path / "jobs.csv", "--snapshots", tmp_path / "snapshots.csv", "--slurm", slurm)
    said = lucid("evaluate", "waits", *files, "--train-snapshots", "8", "--write", page, "--json")
    document = said.json
    rows = {row["model"]: row for row in document["rows"]}
    assert {"ebm", "partition_median", "lightgbm", "neural"} <= set(rows)
    assert rows.pop("slurm") == {"model": "slurm", "rows": 2, "mae_s": 60.0}
    assert all(set(row) >= MEASURES for row in rows.values())
    assert len({row["rows"] for row in rows.values()}) == 1
    assert document["rows_in"] == document["rows_kept"]
    assert [row["group"] for row in document["groups"]][:2] == ["all", "gpu_jobs"]
    assert "| partition gpu |" in page.read_text()


def test_a_file_without_estimates_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "slurm.csv"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(BadInputError, match="diff_in_s"):
        slurm_row(file)
