"""`lucid live slurm` with shared partitions, on a real Slurm, and killed."""

from collections.abc import Iterator

import pytest

from live_scheduler.slurm.adapter import SlurmAdapter
from live_scheduler.slurm.shared_partitions import NEW_JOBS_WAIT_S
from tests.slurm.conftest import private_slurm
from tests.slurm.live_cluster import LiveCluster
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def one_slurm() -> Iterator[PrivateSlurm]:
    with private_slurm(
        nodes=(Node("n1"), Node("s1", gpus=1, shards=2), Node("s2", gpus=1, shards=2)),
        partitions=(
            Partition("vc1", ("n1",)),
            Partition("shared", ("s1", "s2")),
        ),
    ) as slurm:
        yield slurm


@pytest.fixture
def live_settings() -> str:
    return 'shared_partitions = ["shared"]\n'


@pytest.fixture
def cluster(cluster: LiveCluster) -> LiveCluster:
    cluster.keep_release()
    return cluster


def test_nobody_shares_unasked_while_it_lives_nor_waits_for_it_when_it_dies(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = cluster.block()
    cluster.submit("train_u0", "--no-requeue")
    daemon = cluster.started()
    monkeypatch.setenv("SLURM_CONF", str(cluster.slurm.conf))
    read_queue = SlurmAdapter().read
    options = ("--partition=shared", "--gres=shard:1", f"--begin=now+{NEW_JOBS_WAIT_S}")
    jobs = [cluster.submit("unknown", *options, seconds=600, gpus=0) for _ in range(4)]

    def running() -> dict[str, str]:
        return cluster.queue("%i %N", "--states=R", "--partition=shared")

    cluster.wait(lambda: len(running()) == 2, "two run, alone")
    # Nothing is known of what they need, so the others wait, ranked or not.
    cluster.wait(lambda: len(cluster.ranked() & set(jobs)) == 2, "the others are ranked")
    assert sorted(running().values()) == ["s1", "s2"]
    daemon.kill()
    cluster.wait(cluster.quiet, "the switch ends")
    # What is left is a begin time that passes: test_slurm_colocation.py waits for it.
    waiting = [job for job in read_queue().jobs if job.waiting and job.partition == "shared"]
    assert sorted(job.job_id for job in waiting) == sorted(set(jobs) - set(running()))
    for job in waiting:
        assert (job.held, job.pinned_to, job.waits_for) == (False, "", "BeginTime")
        assert job.begin_time_s is not None
        assert job.begin_time_s <= job.submit_time_s + NEW_JOBS_WAIT_S + 1
    assert not cluster.ranked()
    cluster.slurm.run("scancel", *jobs, block)
