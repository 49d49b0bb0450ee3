import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler_jobs.devices.nvidia_processes import (
    foreign_processes,
    local_name,
    mps_clients,
    mps_pipes,
    slurm_job,
    uses_mps,
)

IDS = st.sets(st.integers(min_value=1, max_value=60), max_size=8)
SERVER = "/usr/bin/nvidia-cuda-mps-server"


def test_clients_of_mps_are_what_makes_a_device_shared_by_mps() -> None:
    assert uses_mps([11], {10: SERVER, 11: "python"})
    assert uses_mps([4011], {4011: None})
    assert not uses_mps([], {10: SERVER, 11: "python"}), "a server alone: our process computes beside it"
    assert not uses_mps([10], {10: SERVER})
    assert uses_mps(None, {10: "nvidia-cuda-mps-server"}), "an old driver lists the server only"
    assert not uses_mps(None, {11: "python"})


@given(reported=IDS, ours=IDS)
def test_every_reported_process_is_ours_or_foreign(reported: set[int], ours: set[int]) -> None:
    others = set(foreign_processes(reported, ours))
    assert others <= reported - ours
    if reported & ours or not ours or len(reported) > len(ours):
        assert others == reported - ours


def test_in_a_container_as_many_processes_as_we_have_are_ours() -> None:
    assert foreign_processes([90_001, 90_002], [7, 8]) == ()
    assert foreign_processes([90_001, 90_002, 90_003], [7, 8]) == (90_001, 90_002, 90_003)
    assert foreign_processes([90_001], []) == (90_001,)


def _process(proc: Path, cgroup: str, environment: bytes = b"PATH=/bin\0") -> Path:
    folder = proc / "42"
    folder.mkdir()
    (folder / "cgroup").write_text(cgroup)
    (folder / "environ").write_bytes(environment)
    return proc


@pytest.mark.parametrize(
    ("cgroup", "environment", "job"),
    [
        ("0::/system.slice/slurmstepd.scope/job_1234/step_0/user/task_0\n", b"", "1234"),
        ("0::/system.slice/node1_slurmstepd.scope/job_77/step_batch/user/task_special\n", b"", "77"),
        ("11:devices:/slurm/uid_1000/job_987/step_0\n1:cpuset:/\n", b"SLURM_JOB_ID=5\0", "987"),
        ("0::/user.slice/user-1000.slice\n", b"A=1\0SLURM_JOB_ID=31\0B=2\0", "31"),
        ("0::/user.slice\n", b"SLURM_JOB_ID=31\0", "31"),
        ("0::/user.slice\n", b"OLD_SLURM_JOB_ID=31\0SLURM_JOB_ID=\0", None),
        ("0::/kubepods/burstable/podjob_9x/abc\n", b"PATH=/bin\0", None),
    ],
)
def test_a_process_belongs_to_the_slurm_job_of_its_control_group(
    tmp_path: Path, cgroup: str, environment: bytes, job: str | None
) -> None:
    assert slurm_job(42, _process(tmp_path, cgroup, environment)) == job


def test_a_process_that_has_gone_has_neither_job_nor_name(tmp_path: Path) -> None:
    assert slurm_job(42, tmp_path) is None
    assert local_name(42, tmp_path) is None
    program = [sys.executable, "-c", "input(print(flush=True))"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.readline()  # it runs
        assert "python" in (local_name(running.pid) or "")


def _control(folder: Path, answers: str) -> dict[str, str]:
    """MPS's control program, as it answers questions on its standard input."""
    program = folder / "nvidia-cuda-mps-control"
    program.write_text(f"#!/bin/sh\nread question\ncase $question in\n{answers}\nesac\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    pipes = folder / "pipes"
    pipes.mkdir()
    return {"PATH": f"{folder}:/usr/bin:/bin", "CUDA_MPS_PIPE_DIRECTORY": str(pipes)}


def test_the_daemon_is_asked_for_the_clients_of_each_of_its_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = _control(
        tmp_path,
        'get_server_list) echo 700; echo 800;;\n"get_client_list 700") echo 21;;\n'
        '"get_client_list 800") echo 22; echo 20;;',
    )
    monkeypatch.setenv("PATH", environment["PATH"])
    assert mps_pipes(environment) is None
    assert mps_clients(environment) == (), "no daemon is asked where CUDA would reach no daemon"
    os.mkfifo(tmp_path / "pipes" / "control")
    assert mps_clients(environment) == (20, 21, 22)


def test_a_daemon_that_is_not_there_any_more_has_no_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = _control(tmp_path, "*) echo 'Cannot find MPS control daemon process'; exit 1;;")
    os.mkfifo(tmp_path / "pipes" / "control")
    monkeypatch.setenv("PATH", environment["PATH"])
    assert mps_clients(environment) == ()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    environment["PATH"] = str(tmp_path / "empty")
    assert mps_clients(environment) == ()
