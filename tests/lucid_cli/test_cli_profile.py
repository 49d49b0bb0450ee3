"""`lucid profile`: the same campaign as on the bare machine, as JSON and for people."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from lucid_cli.main import app
from profiler_jobs.__main__ import main as bare
from profiler_jobs.measurement_table import read_measurements
from profiler_jobs.profile_table import read_pair_profiles, read_solo_profiles

ASKED = ["--workloads", "VGG/*/32/*,LSTM/*/64/0", "--device", "simulated:5"]


def lucid(*arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["profile", *arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout) if "--json" in arguments else result.stdout


def test_both_commands_measure_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours, theirs = str(tmp_path / "ours.parquet"), str(tmp_path / "theirs.parquet")
    document = lucid("pairs", *ASKED, "--out", ours, "--json")
    assert bare(["pairs", *ASKED, "--out", theirs, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    volatile = {"table", "elapsed_s", "command"}
    assert {key: document[key] for key in document.keys() - volatile} == {
        key: said[key] for key in said.keys() - volatile
    }
    pd.testing.assert_frame_equal(read_measurements(ours), read_measurements(theirs))
    again = lucid("pairs", *ASKED, "--out", ours)
    assert "0 measured" in again
    assert "Nothing is left." in again


@pytest.mark.slow
def test_a_plan_says_what_it_takes_and_is_followed(tmp_path: Path) -> None:
    table, plan = str(tmp_path / "m.parquet"), str(tmp_path / "plan.json")
    before = lucid("plan", *ASKED, "--out", table, "--budget-s", "560", "--json")
    assert (len(before["tasks"]), before["undecided_pairs"], before["sessions"]) == (3, 6, [3] + [1] * 6)
    assert before["expected_s"] == 3 * 112.0
    assert before["expected_with_undecided_s"] == 3 * 112.0 + 6 * 302.0
    lucid("solo", *ASKED, "--out", table)
    planned = lucid("plan", *ASKED, "--out", table, "--write", plan, "--json")
    assert (len(planned["tasks"]), planned["expected_s"]) == (6, 6 * 302.0)
    followed = lucid("pairs", "--plan", plan, "--device", "simulated:5", "--out", table, "--json")
    assert followed["measured"] == [each["task"] for each in planned["tasks"]]
    words = lucid("plan", *ASKED, "--out", table, "--budget-s", "560")
    assert "SIMULATED" in words
    assert "Nothing is left." in words


@pytest.mark.slow
def test_orders_by_uncertainty_measure_the_same_pairs_in_another_order(tmp_path: Path) -> None:
    asked = ["--workloads", "*/*/64/0", "--device", "simulated", "--most-pairs", "45", "--json"]
    filling = lucid("pairs", *asked, "--out", str(tmp_path / "a.parquet"))["measured"]
    telling = lucid("pairs", *asked, "--order", "uncertainty", "--out", str(tmp_path / "b.parquet"))
    telling = telling["measured"]
    assert telling[:53] == filling[:53]  # 13 configurations alone, 40 pairs that fill the space
    assert set(telling[53:]) != set(filling[53:])


@pytest.mark.slow
def test_a_summary_is_written_in_the_layout_that_training_reads(tmp_path: Path) -> None:
    table, folder = str(tmp_path / "m.parquet"), tmp_path / "out"
    lucid("pairs", *ASKED, "--out", table)
    document = lucid("summary", table, "--write", str(folder), "--json")
    assert (document["solo_profiles"], document["pair_profiles"], document["simulated"]) == (3, 6, True)
    assert {Path(file).name for file in document["files"]} == {
        "solo_profiles.csv",
        "pair_profiles.csv",
        "rejected.csv",
        "out_of_memory.csv",
        "solo_profiles.png",
        "pair_speeds.png",
    }
    assert len(read_solo_profiles(folder / "solo_profiles.csv")) == 3
    assert read_pair_profiles(folder / "pair_profiles.csv")["simulated"].all()
    assert "3 configurations alone" in lucid("summary", table)


def test_a_comparison_exits_with_3_when_two_tables_disagree(tmp_path: Path) -> None:
    tables = [str(tmp_path / f"{window_s}.parquet") for window_s in (20, 30)]
    for window_s, table in zip(("20", "30"), tables, strict=True):
        lucid("solo", *ASKED, "--out", table, "--window-s", window_s)
    assert lucid("compare", *tables, "--json")["agrees"]
    rows = read_measurements(tables[1])
    from profiler_jobs.measurement_table import write_measurements

    write_measurements(tables[1], rows.assign(speed_1=rows["speed_1"] * 0.5))
    assert "FAILS" in lucid("compare", *tables, code=3)
