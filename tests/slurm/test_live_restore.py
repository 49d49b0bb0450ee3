"""`lucid live restore`: afterwards a real Slurm schedules as if the live scheduler had never been there."""

import json
import subprocess
from collections.abc import Iterator

import pytest

from live_scheduler.adapter import Advise, SetPriority
from live_scheduler.safety.touched import TOUCHED_FILE, TouchedJobs
from live_scheduler.slurm.adapter import SlurmAdapter
from live_scheduler.slurm.slurm_memory import SlurmMemory
from tests.slurm.conftest import private_slurm
from tests.slurm.live_cluster import NAME, LiveCluster
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm

pytestmark = pytest.mark.slow

PRIORITIES = {
    "basic": {"PriorityType": "priority/basic"},
    "multifactor": {
        "PriorityType": "priority/multifactor",
        "PriorityWeightJobSize": "10000",
    },
}


@pytest.fixture(scope="module", params=list(PRIORITIES))
def one_slurm(request: pytest.FixtureRequest) -> Iterator[PrivateSlurm]:
    with private_slurm(
        nodes=(Node("n1", cpus=8),), partitions=(Partition("vc1", ("n1",)),), **PRIORITIES[request.param]
    ) as slurm:
        yield slurm


@pytest.fixture
def cluster(cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> LiveCluster:
    for name in ("SLURM_CONF", "PATH", "LUCID_STATE_DIR"):
        monkeypatch.setenv(name, cluster.environment()[name])
    return cluster


def test_the_order_is_that_of_jobs_that_were_never_touched(cluster: LiveCluster) -> None:
    cluster.keep_release()
    block = cluster.block()
    names = [("train_u5", 4), ("train_u3", 1), ("train_u0", 3)]
    jobs = [cluster.submit(name, f"--cpus-per-task={size}") for name, size in names]
    own = cluster.priorities()
    cluster.started()
    cluster.wait(lambda: cluster.ranked() == set(jobs), "all are ranked")
    late = cluster.submit("train_u0", "--cpus-per-task=2")
    cluster.wait(lambda: late in cluster.ranked(), "the latecomer too")
    result = cluster.lucid("live", "restore", f"--cluster={NAME}", "--json")
    assert result.returncode == 0, result.stderr
    said = json.loads(result.stdout)
    assert said["complete"]
    assert said["ended_daemon"] is not None
    cluster.wait(cluster.quiet, "the switch ends")
    assert not cluster.ranked()
    twin = cluster.submit("never_touched", "--cpus-per-task=2")
    after = cluster.priorities()
    assert {job: after[job] for job in jobs} == own
    if cluster.slurm.settings["PriorityType"] == "priority/basic":
        assert cluster.order() == [*jobs, late, twin]
    else:
        assert after[late] == after[twin]
        assert cluster.order() == [jobs[0], jobs[2], late, twin, jobs[1]]  # the larger first
        # Slurm computes them again: a priority that was set is not changed by this.
        cluster.slurm.run("scontrol", "update", f"JobId={jobs[0]},{twin}", "Nice=50")
        niced = cluster.priorities()
        assert after[jobs[0]] - niced[jobs[0]] == after[twin] - niced[twin] == 50
    again = cluster.lucid("live", "restore", f"--cluster={NAME}")
    assert again.returncode == 0
    assert "nothing was to be done" in again.stderr + again.stdout
    cluster.free(block)
    cluster.wait_ended()
    assert cluster.starts() == dict.fromkeys([*jobs, late, twin], 1)


@pytest.mark.parametrize(
    "words", ["mine", "None", "a\r\n", "lucid:nice=-10000", "lucid:\u00a0soon\u00a0|\u00a0lucid:\u00a0later"]
)
def test_advice_goes_and_its_users_comment_stays(cluster: LiveCluster, words: str) -> None:
    block = cluster.block()
    waiting = cluster.submit("a", f"--comment={words}")
    cluster.state.mkdir(parents=True)
    adapter = SlurmAdapter(memory=SlurmMemory.of(cluster.state, NAME))
    changes = [Advise(waiting, "starts soon"), Advise(block, "ends soon")]
    TouchedJobs(cluster.state).note(changes, adapter.read(), adapter.priorities)
    assert adapter.apply(changes) == []
    assert "starts" in comment_of(cluster, waiting)
    assert cluster.lucid("live", "restore", f"--cluster={NAME}").returncode == 0
    assert comment_of(cluster, waiting) == words
    assert comment_of(cluster, block) in ("", "(null)")
    assert cluster.order() == [waiting]


def comment_of(cluster: LiveCluster, job: str) -> str:
    """What squeue shows, byte by byte."""
    words = ["squeue", "--noheader", f"--jobs={job}", "--format=%k"]
    said = subprocess.run(words, env=cluster.environment(), capture_output=True, check=True, timeout=300)
    return said.stdout.decode().removesuffix("\n")


def test_a_lost_record_and_all(cluster: LiveCluster) -> None:
    block = cluster.block()
    jobs = [cluster.submit("a") for _ in range(3)]
    held = cluster.submit("a", "--hold")
    adapter = SlurmAdapter()
    adapter.read()
    ranks = [SetPriority(job, adapter.priorities.least + at) for at, job in enumerate(jobs[:2])]
    assert adapter.apply([*ranks, SetPriority(block, adapter.priorities.most)]) == []
    cluster.slurm.run("scontrol", "update", f"JobId={jobs[2]}", "Priority=77")  # an admin's word
    assert not (cluster.state / TOUCHED_FILE).exists()
    result = cluster.lucid("live", "restore", f"--cluster={NAME}", "--json")
    assert json.loads(result.stdout)["returned"] == 3  # by their numbers, which no other job has
    # What runs is asked too: requeued, it would wait in front of everybody.
    assert not adapter.priorities.ours(int(cluster.queue("%i %Q")[block]))
    assert cluster.order() == jobs
    assert cluster.priorities()[jobs[2]] == 77
    result = cluster.lucid("live", "restore", f"--cluster={NAME}", "--all", "--json")
    assert json.loads(result.stdout)["returned"] == 3
    assert cluster.order() == jobs
    assert cluster.priorities()[jobs[2]] != 77
    assert cluster.priorities()[held] == 0


def test_a_cluster_that_is_away_is_said_so(cluster: LiveCluster) -> None:
    cluster.slurm.stop_controller()
    try:
        result = cluster.lucid("live", "restore", f"--cluster={NAME}", "--limit-s=1")
        assert result.returncode == 1
        assert "Traceback" not in result.stderr
        assert "did not answer" in result.stderr
    finally:
        cluster.slurm.start_controller()
