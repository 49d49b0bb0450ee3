"""`lucid live slurm` with its profiling stage and shared partitions, on a real Slurm, and killed."""

from collections.abc import Iterator

import pytest

from live_scheduler.slurm.adapter import SlurmAdapter
from live_scheduler.slurm.shared_partitions import NEW_JOBS_WAIT_S
from tests.slurm.conftest import private_slurm
from tests.slurm.live_cluster import LiveCluster
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm

pytestmark = pytest.mark.slow

# It says where it starts, and ends at home only.
SCRIPT = """#!/bin/sh
echo "$SLURM_JOB_ID $SLURM_JOB_PARTITION" >> {places}
[ "$SLURM_JOB_PARTITION" != prof ] || exec sleep 600
"""


@pytest.fixture(scope="module")
def one_slurm() -> Iterator[PrivateSlurm]:
    with private_slurm(
        nodes=(Node("n1"), Node("p1"), Node("s1", gpus=1, shards=2), Node("s2", gpus=1, shards=2)),
        partitions=(
            Partition("vc1", ("n1",)),
            Partition("prof", ("p1",)),
            Partition("shared", ("s1", "s2")),
        ),
    ) as slurm:
        yield slurm


@pytest.fixture
def live_settings() -> str:
    return 'profiling_partition = "prof"\nshared_partitions = ["shared"]\n'


@pytest.fixture
def cluster(cluster: LiveCluster) -> LiveCluster:
    cluster.keep_release()
    return cluster


def where(cluster: LiveCluster, *options: str) -> dict[str, str]:
    return cluster.queue("%i %P %T", *options)


def test_measured_and_sent_home_when_the_daemon_dies(cluster: LiveCluster) -> None:
    block = cluster.block()
    cluster.submit("train_u0", "--no-requeue")  # something to rank: it is not measured
    daemon = cluster.started()
    places = cluster.folder / "places"
    script = SCRIPT.format(places=places)
    words = ["sbatch", "--parsable", "--output=/dev/null", "--gres=gpu:1", "--comment=mine"]
    jobs = [cluster.slurm.run(*words, input_text=script).strip() for _ in range(2)]
    cluster.wait(
        lambda: [where(cluster).get(job) for job in jobs] == ["prof RUNNING"] * 2, "they are measured"
    )
    daemon.kill()
    cluster.wait(lambda: [where(cluster).get(job) for job in jobs] == ["vc1 PENDING"] * 2, "they are home")
    assert set(cluster.queue("%i %k").values()) >= {"mine"}
    cluster.wait(cluster.quiet, "the switch ends")
    assert not cluster.ranked()
    cluster.free(block)
    cluster.wait_ended(jobs)
    assert sorted(places.read_text().split()) == sorted([*jobs, *jobs, "prof", "prof", "vc1", "vc1"])


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
