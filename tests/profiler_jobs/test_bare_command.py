"""`python3 -m profiler_jobs` on a machine with little else: imports, kills, budgets, reports, comparisons."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from foundation.exit_codes import ERROR, INTERRUPTED, NOT_REACHED
from profiler_jobs.__main__ import main
from profiler_jobs.devices.simulated import SimulatedGpu
from profiler_jobs.measurement_table import read_measurements, write_measurements
from profiler_jobs.method import Method
from profiler_jobs.plan import PairChoice, expected_pair_s
from profiler_jobs.session import Session, measure, only_writer
from profiler_jobs.session_report import SessionReport
from profiler_jobs.workload_choice import choose_job_types
from profiler_jobs.workloads import all_job_types

ROOT = Path(__file__).parents[2]
# What a bare machine does not have, and PyTorch, which the simulated device does not need.
BLOCKED = [
    *("typer", "rich", "click", "mlflow", "sklearn", "scipy", "interpret", "airflow", "psutil", "torch"),
    *("httpx", "matplotlib", "joblib", "optuna", "pydantic", "lightgbm", "great_expectations", "rapidfuzz"),
    *("onnx", "onnxruntime", "lucid_models", "simulator", "live_scheduler", "pipeline", "lucid_cli"),
]
BLOCKING = f"""
import sys
for name in {BLOCKED}:
    sys.modules[name] = None  # importing it raises ImportError
from profiler_jobs.__main__ import main
sys.exit(main())
"""
# A campaign that stands still in its Nth run, so that it can be ended there.
STANDING = """
import sys, time
from profiler_jobs import commands
from profiler_jobs.__main__ import main
from profiler_jobs.devices.simulated import SimulatedGpu
class Standing(SimulatedGpu):
    left = int(sys.argv[2])
    def run(self, *arguments, **options):
        Standing.left -= 1
        if Standing.left < 0:
            time.sleep(600)
        return super().run(*arguments, **options)
commands.open_device = lambda name: Standing(3)
sys.exit(main(["pairs", "--workloads", "VGG/*/*/0,LSTM/*/*/0", "--out", sys.argv[1]]))
"""


def run_bare(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command as a process in a folder, with what a bare machine lacks blocked."""
    environment = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    return subprocess.run(
        [sys.executable, "-c", BLOCKING, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.slow
def test_the_bare_machine_needs_none_of_our_other_libraries(tmp_path: Path) -> None:
    asked = ("--workloads", "VGG/*/32/*,LSTM/*/64/0", "--device", "simulated:4")
    done = run_bare(tmp_path, "pairs", *asked)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "Nothing is left."
    assert "SIMULATED" in done.stdout
    table = tmp_path / "profiles" / "simulated-24gib.parquet"
    assert set(read_measurements(str(table))["device_kind"]) == {"simulated"}
    planned = run_bare(tmp_path, "plan", *asked, "--json", "--out", str(table))
    assert planned.returncode == 0
    assert (len(json.loads(planned.stdout)["tasks"]), len(json.loads(planned.stdout)["done"])) == (0, 9)
    for arguments in (("summary", str(table), "--write", "out"), ("compare", str(table), str(table))):
        assert run_bare(tmp_path, *arguments).returncode == 0, arguments
    assert (tmp_path / "out" / "pair_profiles.csv").is_file()


def test_without_a_gpu_the_simulated_device_stands_in_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from foundation.errors import ServiceUnavailableError
    from profiler_jobs import commands

    def opened(name: str) -> SimulatedGpu:
        if name == "0":
            raise ServiceUnavailableError("No GPU: there is no driver.", remedy="Use --device simulated.")
        assert name == "simulated"
        return SimulatedGpu(0)

    monkeypatch.setattr(commands, "open_device", opened)
    table = str(tmp_path / "m.parquet")
    assert main(["solo", "--workloads", "NeuMF", "--out", table]) == 0
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "No GPU: there is no driver. The simulated device stands in: its numbers are of no hardware."
    ]
    assert set(read_measurements(table)["device_kind"]) == {"simulated"}
    assert main(["solo", "--workloads", "NeuMF", "--out", table, "--device", "0"]) == ERROR
    assert capsys.readouterr().err == "Error: No GPU: there is no driver. Use --device simulated.\n"


@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_as_if_undisturbed(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole.parquet", tmp_path / "killed.parquet"
    go_on(whole)
    undisturbed = read_measurements(str(whole))
    for tasks, runs in ((2, 2), (9, 7)):
        process = start_standing(killed, runs, tasks)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=300)
        assert process.returncode == -signal.SIGKILL
        assert tasks_of(killed) == tasks
    assert go_on(killed).finished
    pd.testing.assert_frame_equal(read_measurements(str(killed)), undisturbed)


@pytest.mark.slow
def test_sigterm_ends_a_session_and_says_how_to_go_on(tmp_path: Path) -> None:
    table = tmp_path / "m.parquet"
    process = start_standing(table, 2, 2)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=300)
    assert process.returncode == INTERRUPTED
    last = said.splitlines()[-1]
    assert last.startswith(
        "Interrupted. What was measured is in the table; go on with: python3 -m profiler_jobs"
    )
    assert last.endswith(f"--out {table}")
    assert tasks_of(table) == 2


def start_standing(table: Path, runs: int, tasks: int) -> "subprocess.Popen[str]":
    """Start a campaign that stands still after so many runs, and return it once so many tasks are there."""
    process = subprocess.Popen(
        [sys.executable, "-c", STANDING, str(table), str(runs)], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    try:
        while tasks_of(table) < tasks:
            assert process.poll() is None, "the campaign ended by itself"
            time.sleep(0.02)
    except BaseException:
        process.kill()
        process.communicate()
        raise
    return process


def go_on(table: Path) -> SessionReport:
    chosen = choose_job_types("VGG/*/*/0,LSTM/*/*/0", all_job_types())
    return measure(Session(SimulatedGpu(3), str(table)), chosen, pairs=PairChoice())


def tasks_of(table: Path) -> int:
    if not table.is_file():
        return 0
    with table.open("rb") as stream:  # opened once: the file may be replaced meanwhile
        return len(pq.read_table(stream, columns=["task"]).column(0).unique())


def test_two_processes_do_not_write_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = str(tmp_path / "m.parquet")
    asked = ["solo", "--workloads", "NeuMF", "--device", "simulated", "--out", table]
    with only_writer(table):
        assert main(asked) == ERROR
    assert "Another process is measuring into" in capsys.readouterr().err
    assert main(asked) == 0


@pytest.mark.slow
def test_a_report_accounts_for_every_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = str(tmp_path / "m.parquet")
    asked = ["--workloads", "BERT,NeuMF/*/64/*", "--device", "simulated", "--out", table]
    solo = report(capsys, "solo", *asked)
    assert (len(solo["measured"]), solo["left"], solo["finished"], solo["simulated"]) == (4, [], True, True)
    assert solo["command"] == f"python3 -m profiler_jobs {shlex.join(['solo', *asked, '--json'])}"
    pairs = report(capsys, "pairs", *asked, "--most-pairs", "5")
    assert (len(pairs["measured"]), pairs["done_before"], pairs["pair_profiles"]) == (5, 4, 5)
    # 10 pairs: two BERTs do not fit together (3 pairs), 5 were asked for.
    assert pairs["left_out"] == {
        "solo memory adds up to more than the device has": 3,
        "more pairs than were asked for": 2,
    }


def test_a_plan_file_is_followed_in_its_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, plan = str(tmp_path / "m.parquet"), str(tmp_path / "plan.json")
    asked = ["--workloads", "VGG/*/32/*,LSTM/*/64/0", "--device", "simulated", "--out", table]
    report(capsys, "solo", *asked, "--window-s", "20")
    planned = report(capsys, "plan", *asked, "--window-s", "20", "--write", plan, "--most-pairs", "4")
    order = [each["task"] for each in planned["tasks"]]
    document = json.loads(Path(plan).read_text())
    document["tasks"].reverse()
    Path(plan).write_text(json.dumps(document))
    followed = report(capsys, "pairs", "--plan", plan, "--device", "simulated", "--out", table)
    assert followed["measured"] == order[::-1]
    again = report(capsys, "pairs", "--plan", plan, "--device", "simulated", "--out", table)
    assert (again["measured"], again["done_before"], again["finished"]) == ([], 4, True)
    assert set(read_measurements(table)["method"].map(lambda text: json.loads(text)["window_s"])) == {20.0}
    assert main(["pairs", "--plan", plan, "--out", table, "--window-s", "10"]) == ERROR
    assert "says how to measure" in capsys.readouterr().err


def test_what_was_rejected_is_measured_again_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = str(tmp_path / "m.parquet")
    asked = ["solo", "--workloads", "NeuMF,PPO", "--device", "simulated", "--out", table]
    report(capsys, *asked)
    good = read_measurements(table)
    unsteady = (good["task"] == "NeuMF/MovieLens/64/0") & (good["repeat"] == 1)
    write_measurements(table, good.assign(speed_1=good["speed_1"].where(~unsteady, good["speed_1"] * 2)))
    assert report(capsys, *asked)["solo_profiles"] == 6
    # Of other configurations nothing is forgotten.
    report(capsys, "solo", "--workloads", "PPO", *asked[3:], "--again-rejected")
    again = report(capsys, *asked, "--again-rejected")
    assert (again["measured"], again["solo_profiles"]) == (["NeuMF/MovieLens/64/0"], 7)
    pd.testing.assert_frame_equal(
        read_measurements(table).sort_values(["task", "repeat"], ignore_index=True),
        good.sort_values(["task", "repeat"], ignore_index=True),
    )


@pytest.mark.parametrize(
    ("window_s", "hint"),
    [("30", "with --window-s 27 it would hold 2"), ("27", "with --window-s 17 it would hold 3")],
)
def test_a_plan_says_by_which_window_a_budget_holds_one_more(
    window_s: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["plan", "--workloads", "VGG", "--device", "simulated", "--out", str(tmp_path / "m.parquet")]
    assert main([*asked, "--budget-s", "560", "--window-s", window_s]) == 0
    assert hint in capsys.readouterr().out
    better = float(hint.split()[2])
    pair_s = expected_pair_s(Method(window_s=better), overhead_s=12.0)
    assert int(560 // pair_s) == int(hint.split()[-1])
    assert int(560 // expected_pair_s(Method(window_s=better + 1), overhead_s=12.0)) < int(hint.split()[-1])


@pytest.mark.slow
def test_a_comparison_judges_two_measurements(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables = [str(tmp_path / f"{seed}.parquet") for seed in (1, 2)]
    for seed, table in zip((1, 2), tables, strict=True):
        measure(
            Session(SimulatedGpu(seed), table),
            choose_job_types("VGG,LSTM", all_job_types()),
            pairs=PairChoice(most=20),
        )
    same = report(capsys, "compare", *tables)
    checks = {check["name"]: check for check in same["checks"]}
    assert same["agrees"]
    assert checks["rank correlation of GPU utilisation"]["value"] >= 0.95
    assert 0 < checks["median difference of solo speeds"]["value"] < 0.03
    rows = read_measurements(tables[1])
    slower = rows.assign(speed_1=rows["speed_1"].where(rows["job_type_2"].notna(), rows["speed_1"] * 0.9))
    write_measurements(tables[1], slower)
    assert main(["compare", *tables]) == NOT_REACHED
    assert "FAILS  median difference of solo speeds: 0.1" in capsys.readouterr().out
    alone = report(capsys, "compare", tables[0])
    assert [check["name"] for check in alone["checks"]] == [
        "median difference within pairs of equals",
        "largest difference within pairs of equals",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("solo", "--workloads", "GPT-5"), "Unknown workload 'GPT-5'"),
        (("solo", "--budget-s", "-1", "--device", "simulated"), "budget_s is -1.0"),
        (("solo", "--repeats", "0", "--device", "simulated"), "repeats is 0"),
        (("pairs", "--most-pairs", "0", "--device", "simulated"), "most_pairs is 0"),
        (("solo", "--device", "simulated:x"), "'x' is no seed"),
        (("summary", "nowhere.parquet"), "no measurements in nowhere.parquet"),
        (("pairs", "--plan", "nowhere.json", "--device", "simulated"), "There is no plan nowhere.json"),
    ],
)
def test_bad_input_is_one_line(
    arguments: tuple[str, ...],
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == ERROR
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 1
    assert errors[0].startswith("Error: ")
    assert said in errors[0]
    assert list(tmp_path.iterdir()) == []
