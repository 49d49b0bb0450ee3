"""The daemon killed while its profiling stage has jobs measured: they all come home."""

from collections.abc import Iterator

import pytest

from tests.slurm.conftest import private_slurm
from tests.slurm.live_cluster import LiveCluster
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def one_slurm() -> Iterator[PrivateSlurm]:
    with private_slurm(
        nodes=(Node("n1"), Node("n2", gpus=2), Node("p1", gpus=2)),
        partitions=(
            Partition("vc1", ("n1",), 60),
            Partition("vc2", ("n2",)),
            Partition("prof", ("p1",), 60),
        ),
        accounting=True,
        AuthInfo="cred_expire=8",  # a requeued job waits for the life of a credential
    ) as slurm:
        yield slurm


@pytest.fixture
def cluster(cluster: LiveCluster) -> LiveCluster:
    cluster.keep_release()
    return cluster


def test_killed_while_jobs_are_measured_they_all_come_home(cluster: LiveCluster) -> None:
    with (cluster.folder / "live.toml").open("a") as settings:
        settings.write('profiling_partition = "prof"\npartitions = ["vc1"]\n')
    block = cluster.block()
    script = cluster.folder / "measured.sh"
    script.write_text(
        f'#!/bin/sh\necho "$SLURM_JOB_PARTITION-$SLURM_JOB_ID" >> {cluster.starts_file}\n'
        '[ "$SLURM_JOB_PARTITION" != prof ] || exec sleep 600\n'
    )
    words = ["sbatch", "--parsable", "--output=/dev/null", "--time=10", "--gres=gpu:1", "--job-name=train_u4"]
    jobs = [cluster.slurm.run(*words, str(script)).strip() for _ in range(4)]
    daemon = cluster.start()
    cluster.wait(
        lambda: sum(where == "prof RUNNING" for where in cluster.queue("%i %P %T").values()) == 2,
        "two are measured",
    )
    daemon.kill()
    cluster.wait(
        lambda: (
            {cluster.queue("%i %P %T").get(job) for job in jobs} == {"vc1 PENDING"} and not cluster.ranked()
        ),
        "all are home, and the order is Slurm's",
    )
    assert 0 not in {cluster.priorities()[job] for job in jobs}  # no job is held
    cluster.free(block)
    cluster.wait_ended(jobs)
    starts = cluster.starts()
    assert {job: starts[f"vc1-{job}"] for job in jobs} == dict.fromkeys(jobs, 1)
    assert all(starts[f"prof-{job}"] <= 1 for job in jobs)
