"""Slurm's commands as functions, on a real cluster."""

import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from foundation.errors import BadInputError, NotFoundError, ServiceUnavailableError, UnknownNameError
from live_scheduler.slurm.commands import (
    JobRequest,
    JobStatus,
    cancel,
    job_status,
    living_jobs,
    partitions,
    submit,
    submit_once,
)
from live_scheduler.slurm.job_states import PHASE_OF_STATE, Phase, parse_state
from tests.slurm.private_slurm import PrivateSlurm

pytestmark = pytest.mark.slow


@pytest.fixture
def sleeper(tmp_path: Path) -> JobRequest:
    return JobRequest("lucid-test", ["sleep", "300"], "prof", 5, str(tmp_path / "%j.log"))


def wait_for(slurm: PrivateSlurm, job_id: int, *phases: Phase) -> JobStatus:
    slurm.wait_for(lambda: job_status(job_id).phase in phases, f"job {job_id} is {phases}")
    return job_status(job_id)


def test_what_a_user_writes_reaches_the_program_untouched(
    slurm: PrivateSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "secret")
    monkeypatch.setenv("SBATCH_PARTITION", "vc1")
    monkeypatch.setenv("SQUEUE_STATES", "RUNNING")
    folder = tmp_path / "50% of $(touch x) `y`"
    folder.mkdir()
    words = ["a b", "$HOME", "it's", '"', "; touch z", "#SBATCH --partition=vc1", "line\n#SBATCH --hold", "ü"]
    request = JobRequest(
        "lucid-test",
        ["sh", "-c", 'for word; do printf "%s\\0" "$word"; done; env >&2', "sh", *words],
        "prof",
        5,
        str(folder / "%j.log"),
        folder=str(folder),
        comment="profile of 'x' | $(y)",
        environment={"LUCID_LAKE_URI": "s3://lake"},
    )
    job_id = submit(request)
    status = wait_for(slurm, job_id, Phase.SUCCEEDED)
    assert (status.name, status.comment, status.exit_code) == (request.name, request.comment, 0)
    assert status.nodes in ("p1", "p2")
    said = Path(request.log_of(job_id)).read_text()
    assert said.split("\0")[: len(words)] == words
    assert "LUCID_LAKE_URI=s3://lake" in said
    assert "CUDA_VISIBLE_DEVICES=0" in said
    assert "AIRFLOW" not in said
    assert sorted(path.name for path in folder.iterdir()) == [f"{job_id}.log"]


@pytest.mark.parametrize(
    ("script", "phase", "exit_code", "killed_by"),
    [
        ("exit 0", Phase.SUCCEEDED, 0, None),
        ("exit 3", Phase.FAILED, 3, None),
        ("kill -9 $$", Phase.FAILED, 0, 9),
    ],
)
def test_how_a_job_ended(
    slurm: PrivateSlurm, sleeper: JobRequest, script: str, phase: Phase, exit_code: int, killed_by: int | None
) -> None:
    status = wait_for(
        slurm, submit(replace(sleeper, argv=["sh", "-c", script])), Phase.SUCCEEDED, Phase.FAILED
    )
    assert (status.phase, status.exit_code, status.signal) == (phase, exit_code, killed_by)


def test_the_gpu_is_the_jobs_alone(slurm: PrivateSlurm, sleeper: JobRequest) -> None:
    """Two GPUs a node: with whole nodes, two jobs run on two nodes and a third waits."""
    jobs = [submit(replace(sleeper, name=f"lucid-{i}", whole_node=True)) for i in range(3)]
    first, second = (wait_for(slurm, job_id, Phase.RUNNING) for job_id in jobs[:2])
    assert first.nodes != second.nodes
    slurm.wait_for(lambda: job_status(jobs[2]).reason == "Resources", "the third waits for a node")
    cancel(jobs[0])
    assert wait_for(slurm, jobs[2], Phase.RUNNING).nodes == first.nodes
    assert job_status(jobs[0]).phase is Phase.CANCELLED


def test_one_job_however_often_and_from_how_many_places_it_is_asked_for(
    slurm: PrivateSlurm, sleeper: JobRequest
) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: submit_once(sleeper), range(8)))
    living = living_jobs(sleeper.name)
    assert len(living) == 1
    assert living[0] in found
    assert submit_once(sleeper) == living[0]
    cancel(living[0])
    wait_for(slurm, living[0], Phase.CANCELLED)
    assert submit_once(sleeper) not in found, "a job that has ended is not the one that is asked for"


def test_jobs_of_one_name_never_run_at_once(slurm: PrivateSlurm, sleeper: JobRequest) -> None:
    first, second = submit(sleeper), submit(sleeper)
    wait_for(slurm, first, Phase.RUNNING)
    assert job_status(second).phase is Phase.WAITING
    assert job_status(second).reason == "Dependency"


def test_a_node_that_fails_requeues_the_job_under_its_number(
    slurm: PrivateSlurm, sleeper: JobRequest
) -> None:
    job_id = submit(sleeper)
    node = wait_for(slurm, job_id, Phase.RUNNING).nodes
    slurm.crash_node(node)
    try:
        slurm.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
        assert wait_for(slurm, job_id, Phase.WAITING).restarts == 1
        slurm.run("scontrol", "update", f"JobId={job_id}", "StartTime=now")
        assert wait_for(slurm, job_id, Phase.RUNNING).nodes != node
    finally:
        slurm.start_node(node)


def test_what_slurm_refuses_it_refuses_in_its_own_words(slurm: PrivateSlurm, sleeper: JobRequest) -> None:
    assert partitions() == ["prof", "vc1"]
    with pytest.raises(UnknownNameError, match=r"'nowhere'.*prof, vc1"):
        submit(replace(sleeper, partition="nowhere"))
    with pytest.raises(BadInputError, match="Requested node configuration is not available"):
        submit(replace(sleeper, gres="gpu:9"))
    with pytest.raises(BadInputError, match="sbatch"):
        submit(replace(sleeper, options=["--no-such-option"]))
    with pytest.raises(NotFoundError, match="no job 987654"):
        job_status(987654)
    cancel(987654)
    assert living_jobs(sleeper.name) == []


@pytest.mark.parametrize(
    "change",
    [
        {"name": "--wrap"},
        {"name": "a b"},
        {"argv": []},
        {"argv": ["a\0b"]},
        {"time_limit_min": 0},
        {"log_path": "here.log"},
        {"log_path": "/a\\b"},
        {"comment": "a\nb"},
    ],
)
def test_what_cannot_be_submitted_is_refused_before_slurm_sees_it(change: dict[str, object]) -> None:
    values = {"name": "a", "argv": ["true"], "partition": "p", "time_limit_min": 1, "log_path": "/tmp/x"}
    with pytest.raises(BadInputError, match=r"[Jj]ob"):
        JobRequest(**{**values, **change})  # type: ignore[arg-type]


def test_a_controller_that_is_away_is_a_service_to_ask_again(
    slurm: PrivateSlurm, sleeper: JobRequest
) -> None:
    job_id = submit(sleeper)
    wait_for(slurm, job_id, Phase.RUNNING)
    slurm.stop_controller(signal.SIGTERM)
    try:
        with pytest.raises(ServiceUnavailableError, match="squeue"):
            job_status(job_id)
        with pytest.raises(ServiceUnavailableError, match="sbatch"):
            submit(sleeper)
    finally:
        slurm.start_controller()
    assert job_status(job_id).phase is Phase.RUNNING, "jobs outlive their controller"


def test_without_slurms_programs_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sleeper: JobRequest
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInputError, match=r"squeue is not on .*slurm-client"):
        submit_once(sleeper)


@pytest.mark.parametrize(
    ("text", "state"),
    [("CANCELLED by 1000", "CANCELLED"), ("NODE_FAIL", "NODE_FAIL"), ("CANCELLED+", "CANCELLED")],
)
def test_states_are_read_as_slurm_writes_them(text: str, state: str) -> None:
    assert parse_state(text) == state


def test_every_state_has_one_meaning_and_an_unknown_one_none() -> None:
    documented = (
        "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PENDING PREEMPTED RUNNING"
        " REQUEUED RESIZING REVOKED SUSPENDED TIMEOUT CONFIGURING COMPLETING"
    )
    assert set(documented.split()) <= set(PHASE_OF_STATE)
    assert {state for state, phase in PHASE_OF_STATE.items() if phase is Phase.SUCCEEDED} == {"COMPLETED"}
    with pytest.raises(UnknownNameError, match="'DREAMING'"):
        parse_state("DREAMING")
