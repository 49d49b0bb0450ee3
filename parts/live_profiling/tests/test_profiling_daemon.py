"""`lucid live slurm` with its profiling stage, beside shared partitions, on a real Slurm, and killed."""

from collections.abc import Iterator

import pytest

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
