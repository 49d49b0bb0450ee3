"""The private cluster itself: it accounts, has neighbours, and goes with the process that asked for it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from cluster_logs.ingest import read_jobs_file
from cluster_logs.slurm_words import DEFAULT_FIELDS
from live_scheduler.slurm.commands import JobRequest, job_status, submit
from live_scheduler.slurm.job_states import Phase
from tests.airflow_home import REPOSITORY
from tests.slurm.conftest import skip_without_slurm
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm, SlurmStartError, free_ports
from tests.slurm.standing_slurm import end, start
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

ONE_NODE = {"nodes": (Node("p1", gpus=2, shards=4),), "partitions": (Partition("prof", ("p1",)),)}


def processes_of(folder: Path) -> list[psutil.Process]:
    """What runs of a cluster, jobs included."""
    found = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), *process.environ().values()]
        except psutil.Error:
            continue
        if any(str(folder) in word for word in words) and process.pid != os.getpid():
            found.append(process)
    return found


def test_accounting_remembers_what_the_controller_forgot(
    own_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_without_slurm(accounting=True)
    with PrivateSlurm(own_folder, accounting=True, **ONE_NODE) as slurm:
        monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
        monkeypatch.setenv("PATH", slurm.environment()["PATH"])
        script = ["sh", "-c", "exit 3"]
        job_id = submit(JobRequest("lucid-a", script, "prof", 5, str(tmp_path / "%j.log"), comment="a | b"))
        slurm.wait_for(lambda: job_status(job_id).phase.ended, "the job ends")
        before = job_status(job_id)
        rows = ["sacct", "-a", "-D", "-X", "-P", "-n", "--noconvert", "-S", "now-1days"]
        rows += ["-o", ",".join(DEFAULT_FIELDS)]
        slurm.wait_for(lambda: "FAILED" in slurm.run(*rows), "the job's end is accounted for")
        slurm.stop_controller()
        for state in (own_folder / "state").glob("job_state*"):
            state.unlink()
        slurm.start_controller()
        assert slurm.run("squeue", "--noheader", "--states=all") == ""
        after = job_status(job_id)
        assert (after.phase, after.exit_code, after.comment) == (Phase.FAILED, 3, "a | b")
        assert (after.name, after.nodes) == (before.name, before.nodes)
        # What sacct says is the log that this product reads.
        (tmp_path / "sacct.txt").write_text(slurm.run(*rows))
    jobs, report = read_jobs_file(str(tmp_path / "sacct.txt"), "sacct")
    assert report.rows_in == report.rows_kept == 1
    assert (jobs["gpus"].iloc[0], jobs["state"].iloc[0]) == (1, "FAILED")


def test_clusters_live_side_by_side_and_leave_nothing(slurm: PrivateSlurm, own_folder: Path) -> None:
    with PrivateSlurm(own_folder, **ONE_NODE) as neighbour:
        for cluster in (slurm, neighbour):
            script = "#!/bin/sh\nsleep 300 &\nsleep 300\n"
            cluster.run("sbatch", "--partition=prof", "--output=/dev/null", input_text=script)
        for cluster in (slurm, neighbour):
            # slurmctld, slurmd, the script and its sleeps
            cluster.wait_for(lambda of=cluster.folder: len(processes_of(of)) >= 5, "its job runs")
    assert processes_of(own_folder) == []
    assert slurm.run("squeue", "-h", "-o%T").split() == ["RUNNING"]


OWNER = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what shells start behind them
from pathlib import Path
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm
with PrivateSlurm(Path(sys.argv[1]), [Node("p1")], [Partition("prof", ["p1"])]) as slurm:
    slurm.run("sbatch", "--output=/dev/null", input_text="#!/bin/sh\\nsleep 300\\n")
    slurm.wait_for(lambda: "RUNNING" in slurm.run("squeue", "-o%T"), "the job runs")
    print("up", flush=True)
    time.sleep(300)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_cluster_goes_with_its_owner_however_that_ends(own_folder: Path, number: signal.Signals) -> None:
    skip_without_slurm()
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(own_folder)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
    finally:
        owner.send_signal(number)
        owner.communicate(timeout=300)
    wait_until(lambda: not processes_of(own_folder), "no process is left")


def test_one_that_stays_until_it_is_told_to_go(own_folder: Path) -> None:
    skip_without_slurm()
    slurm = start(own_folder / "c", accounting=False)
    try:
        assert "prof" in slurm.run("sinfo", "-h", "-o%R")
        with pytest.raises(SlurmStartError, match="is up in"):
            start(own_folder / "c")
    finally:
        assert end(own_folder / "c")
    wait_until(lambda: not processes_of(own_folder), "no process is left")
    assert not end(own_folder / "c")


def test_a_folder_whose_sockets_would_have_too_long_names_is_refused(own_folder: Path) -> None:
    skip_without_slurm()
    with pytest.raises(SlurmStartError, match="too long"):
        PrivateSlurm(own_folder / ("x" * 100)).start()


def test_ports_are_free_and_differ() -> None:
    assert len(set(free_ports(50))) == 50
