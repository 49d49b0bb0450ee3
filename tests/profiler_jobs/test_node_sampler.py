import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster_logs.metrics.gpu_samples import read_sample_table
from foundation.errors import ServiceUnavailableError
from profiler_jobs.node_sampler import ROW_SCHEMA, WAITING_MOST, Row, RowFiles
from tests.profiler_jobs.fake_nvml.fake_driver import CARD, compile_driver, driver_environment

FIRST, SECOND = "GPU-11111111-2222-3333-4444-555555555555", "GPU-22222222-2222-3333-4444-555555555555"
SILENT_CARD = """\
device
name NVIDIA A100
uuid GPU-22222222-2222-3333-4444-555555555555
memory 40960 500 12
mig 1
power_mw 61000
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_driver(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def job_process() -> Iterator[int]:
    """A process that says it is of a Slurm job."""
    waits = subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"],
        env=os.environ | {"SLURM_JOB_ID": "8642"},
        stdout=subprocess.PIPE,
    )
    assert waits.stdout is not None
    waits.stdout.read(1)
    yield waits.pid
    waits.kill()
    waits.wait()
    waits.stdout.close()


def _start(driver: Path, folder: Path, state: str, *arguments: str) -> "subprocess.Popen[str]":
    (folder / "state").write_text(state)
    agent = [sys.executable, "-m", "profiler_jobs.node_sampler"]
    return subprocess.Popen(
        [*agent, "--out", str(folder / "out"), "--host", "node7", "--every-s", "1", *arguments],
        env=driver_environment(driver, folder / "state"),
        stderr=subprocess.PIPE,
        text=True,
    )


def _files(folder: Path) -> list[Path]:
    return sorted((folder / "out").rglob("*"), key=str)


@pytest.mark.slow
def test_a_node_is_sampled_and_its_jobs_are_named(driver: Path, tmp_path: Path, job_process: int) -> None:
    state = CARD.replace("20000 12 wall", "100000 72 boot").replace(" 620 0", " 620 3000")
    state += f"process {job_process} 900 C python\n" + SILENT_CARD
    began = datetime.now(UTC)
    agent = _start(driver, tmp_path, state, "--duration-s", "2")
    _, said = agent.communicate(timeout=120)
    assert agent.returncode == 0, said
    assert said.startswith("Sampling 2 GPUs of node7 every 1 s into ")
    assert said.endswith("Stopped; 4 rows written.\n")
    (file,) = [path for path in _files(tmp_path) if path.is_file()]
    assert file.name.startswith("node7-")
    assert file.parent.name in (f"date={began:%Y-%m-%d}", f"date={datetime.now(UTC):%Y-%m-%d}")
    table = pq.read_table(file)
    assert table.schema.names == ROW_SCHEMA.names
    rows = table.to_pylist()
    assert [row["gpu_uuid"] for row in rows] == [FIRST, SECOND] * 2
    assert {row["host"] for row in rows} == {"node7"}
    assert began < rows[0]["time"] < rows[2]["time"] < datetime.now(UTC)
    assert _seen(rows, FIRST, "gpu_util_pct") == {80.0}
    assert _seen(rows, FIRST, "gpu_mem_util_pct") == {30.0}
    assert _seen(rows, FIRST, "gpu_mem_mib") == {3000.0}
    assert _seen(rows, FIRST, "job_ids") == {"8642"}
    powers = _seen(rows, FIRST, "power_w")
    assert all(100 < power < 1_000 for power in powers), (
        "350 W, however late a busy machine reads the counter"
    )
    assert powers
    assert _seen(rows, SECOND, "gpu_util_pct") == set(), "MIG is on"
    assert _seen(rows, SECOND, "gpu_mem_mib") == {12.0}
    assert _seen(rows, SECOND, "power_w") == {61.0}
    assert _seen(rows, SECOND, "job_ids") == {""}
    accounting = read_sample_table(str(file)).accounting
    assert (accounting.rows_in, accounting.kept) == (4, 4)


def _seen(rows: list[Row], gpu: str, column: str) -> set[Any]:
    return {row[column] for row in rows if row["gpu_uuid"] == gpu} - {None}


@pytest.mark.slow
def test_an_agent_that_is_stopped_keeps_what_it_saw(driver: Path, tmp_path: Path) -> None:
    agent = _start(driver, tmp_path, CARD + "process 4000001 10 C elsewhere\n")
    assert agent.stderr is not None
    assert agent.stderr.readline().startswith("Sampling 1 GPUs")
    time.sleep(2.5)
    agent.send_signal(signal.SIGTERM)
    _, said = agent.communicate(timeout=300)
    assert agent.returncode == 0
    assert "rows written" in said
    (file,) = [path for path in _files(tmp_path) if path.is_file()]
    rows = pq.read_table(file).to_pylist()
    assert len(rows) >= 1
    assert {row["job_ids"] for row in rows} == {None}, "a process of no job that can be seen"


@pytest.mark.slow
def test_a_gpu_that_falls_off_ends_the_agent_once_it_was_the_last(driver: Path, tmp_path: Path) -> None:
    agent = _start(driver, tmp_path, CARD)
    assert agent.stderr is not None
    agent.stderr.readline()
    time.sleep(1.5)
    (tmp_path / "new").write_text(CARD + "fail nvmlDeviceGetTotalEnergyConsumption 15\n")
    (tmp_path / "new").replace(tmp_path / "state")
    _, said = agent.communicate(timeout=300)
    assert agent.returncode == 1
    assert f"NVIDIA H200 ({FIRST}) is not sampled any more. The GPU is gone: GPU is lost." in said
    assert said.endswith("No GPU of this node answers any more.\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "state", "why"),
    [
        (["--every-s", "0.1"], CARD, "--every-s is 0.1. Give 1 to 600 seconds"),
        ([], "driver 1\n", "No NVIDIA GPU: the driver shows this process none."),
        ([], "init_error 9\n", "No NVIDIA GPU: its driver is not loaded."),
    ],
)
def test_what_cannot_be_sampled_is_said_in_one_line(
    driver: Path, tmp_path: Path, arguments: list[str], state: str, why: str
) -> None:
    agent = _start(driver, tmp_path, state, *arguments)
    _, said = agent.communicate(timeout=300)
    assert agent.returncode == 1
    assert said.startswith(why)
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


BEGIN = datetime(2026, 1, 31, 22, 30, tzinfo=UTC)


def _row(minutes: float) -> Row:
    return {
        "time": BEGIN + timedelta(minutes=minutes),
        "host": "n1",
        "gpu_uuid": FIRST,
        "gpu_util_pct": minutes,
    }


def test_files_end_with_the_hour_and_with_the_day(tmp_path: Path) -> None:
    files = RowFiles(str(tmp_path), "n1/x", 7)
    for minute in range(150):
        files.add([_row(minute)])
        if minute % 7 == 0:
            files.flush()
    files.flush()
    files.flush()
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet"))
    assert names == [
        "date=2026-01-31/n1_x-223000-7.parquet",
        "date=2026-01-31/n1_x-233000-7.parquet",
        "date=2026-02-01/n1_x-000000-7.parquet",
    ]
    tables = [pq.read_table(tmp_path / name, partitioning=None) for name in names]
    assert [table.num_rows for table in tables] == [60, 30, 60]
    assert pa.concat_tables(tables).column("gpu_util_pct").to_pylist() == list(range(150))


def test_what_could_not_be_written_waits_and_is_written_later(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.touch()  # a file where the folder should be: nothing can be written
    files = RowFiles(str(out), "n1", 7)
    for minute in range(0, 150, 10):
        files.add([_row(minute)])
        with pytest.raises(OSError):
            files.flush()
    out.unlink()
    files.flush()
    found = sorted(out.rglob("*.parquet"))
    values = [value for path in found for value in pq.read_table(path).column("gpu_util_pct").to_pylist()]
    assert (len(found), values) == (3, list(range(0, 150, 10)))


def test_nothing_written_for_a_day_is_an_error(tmp_path: Path) -> None:
    files = RowFiles(str(tmp_path), "n1", 7)
    for hour in range(WAITING_MOST + 1):
        files.add([_row(61.0 * hour)])
    with pytest.raises(ServiceUnavailableError, match="for a day"):
        files.add([_row(61.0 * (WAITING_MOST + 1))])
