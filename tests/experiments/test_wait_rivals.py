"""`lucid evaluate waits` from the shell: its JSON, its page, and that every rival is asked the same."""

from pathlib import Path

import pandas as pd
import pytest

from experiments.model_quality.release_waits import release_waits
from experiments.model_quality.wait_rivals import slurm_row
from foundation.errors import BadInputError
from parts.waits.tests.queue_logs import FAST_WAITS, write_queue_log
from tests.command_line import Lucid

MEASURES = {"mse_log10", "within_x2", "within_x3", "coverage_p50", "coverage_p90", "rows"}


@pytest.mark.slow  # all rivals are trained
def test_every_model_is_judged_by_the_same_rows(lucid: Lucid, tmp_path: Path) -> None:
    write_queue_log(tmp_path, days=8)
    slurm = tmp_path / "slurm.csv"
    slurm.write_text("true_start_time,estimate_start_time,diff_in_s\na,b,30\na,b,90\n")
    page = tmp_path / "page.md"
    names = ("waits by model", "waits by group")
    page.write_text("\n".join(f"<!-- {name}: begin -->\n<!-- {name}: end -->" for name in names))
    files = ("--jobs", tmp_path / "jobs.csv", "--snapshots", tmp_path / "snapshots.csv", "--slurm", slurm)
    said = lucid("evaluate", "waits", *files, "--train-snapshots", "6", "--write", page, "--json")
    document = said.json
    rows = {row["model"]: row for row in document["rows"]}
    assert {"ebm", "partition_median", "lightgbm", "neural"} <= set(rows)
    assert rows.pop("slurm") == {"model": "slurm", "rows": 2, "mae_s": 60.0}
    assert all(set(row) >= MEASURES for row in rows.values())
    assert len({row["rows"] for row in rows.values()}) == 1
    assert document["rows_in"] == document["rows_kept"]
    assert [row["group"] for row in document["groups"]][:2] == ["all", "gpu_jobs"]
    assert "| partition gpu |" in page.read_text()


def test_a_release_s_model_learns_once_and_is_judged_on_the_days_after(tmp_path: Path) -> None:
    write_queue_log(tmp_path, days=24)
    jobs = tmp_path / "jobs.csv"
    ours, median = release_waits((jobs, tmp_path / "snapshots.csv"), 8, settings=FAST_WAITS)
    assert (ours.model, median.model) == ("ebm", "partition_median")
    assert ours.waits == median.waits > 100
    assert 0 < ours.mae_log10 < 1.5 * median.mae_log10
    table = pd.read_csv(jobs)
    last_s = table["submit_time"].max()
    late = table["submit_time"] > last_s - 8 * 86_400
    table.loc[late, ["start_time", "end_time"]] += 50 * 86_400  # beyond the log: no wait can be judged
    table.to_csv(jobs, index=False)
    with pytest.raises(BadInputError, match="is over"):
        release_waits((jobs,), 1, settings=FAST_WAITS)


def test_a_file_without_estimates_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "slurm.csv"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(BadInputError, match="diff_in_s"):
        slurm_row(file)
