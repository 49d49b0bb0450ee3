"""Runs of MLflow whose writer was killed are ended by the next step; runs that are written stay."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from foundation.process_identity import own_process
from lucid_models.registry import Registry
from lucid_models.run_owner import PROCESS_TAG, TASK_TAG, TRY_TAG, name_task, owner_tags

NOTE = "mlflow.note.content"
WRITER = """
import sys, time
from lucid_models.registry import Registry

with Registry(sys.argv[1]).run("lucid-training", "writes") as run:
    print(run.run_id, flush=True)
    sys.stdin.readline()
"""


@contextmanager
def writer(uri: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A process that writes a run, and the run's id."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()


@pytest.mark.slow
def test_what_a_killed_process_wrote_ends_and_what_a_living_one_writes_does_not(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    registry = Registry(uri)
    with registry.run("lucid-validation", "makes the store"):
        pass
    with writer(uri) as (lives, living), writer(uri) as (dies, killed):
        dies.send_signal(signal.SIGKILL)
        dies.wait()
        with registry.run("lucid-validation", "the next step, of another experiment"):
            ended = registry.client.get_run(killed)
            assert ended.info.status == "KILLED"
            assert ended.info.end_time is not None
            assert "its process ended without saying so" in ended.data.tags[NOTE]
            assert registry.client.get_run(living).info.status == "RUNNING"
        lives.communicate("\n")
    assert registry.client.get_run(living).info.status == "FINISHED"


@pytest.mark.slow
def test_a_later_try_of_the_same_task_ends_what_an_earlier_one_left_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry(f"sqlite:///{tmp_path / 'mlflow.db'}")
    task = "retrain_models/manual__1/train/0"
    elsewhere = "container-of-before/boot/pid:[1]/7/100.0"
    runs = {
        "the try before": (task, "1", elsewhere),
        "this try": (task, "2", elsewhere),
        "another cluster's": ("retrain_models/manual__1/train/1", "1", elsewhere),
        "the try before, alive": (task, "1", own_process()),
        "of another program": (None, None, None),
    }
    experiment = registry.client.create_experiment("lucid-training")
    ids = {}
    for name, tags in runs.items():
        named = zip((TASK_TAG, TRY_TAG, PROCESS_TAG), tags, strict=True)
        run = registry.client.create_run(experiment, tags={key: text for key, text in named if text})
        ids[name] = run.info.run_id
    monkeypatch.setenv("LUCID_TASK", "")
    monkeypatch.setenv("LUCID_TASK_TRY", "")
    name_task(task, 2)
    assert owner_tags() == {PROCESS_TAG: own_process(), TASK_TAG: task, TRY_TAG: "2"}
    with registry.run("lucid-training", "try 2"):
        status = {name: registry.client.get_run(run_id).info.status for name, run_id in ids.items()}
    assert status == {**dict.fromkeys(runs, "RUNNING"), "the try before": "KILLED"}
    note = registry.client.get_run(ids["the try before"]).data.tags[NOTE]
    assert note == f"Ended as KILLED: try 2 of its task began ({task})."
