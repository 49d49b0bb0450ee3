"""A real MLflow that dies and publishes damaged releases: the live scheduler of a real Slurm goes on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lucid_models.registry import Registry
from lucid_models.releases.lifecycle import publish_release
from lucid_models.releases.manifest import release_name
from tests.evidence import Evidence
from tests.fixtures import MlflowServer, ReleaseShop, register_small_models
from tests.slurm.conftest import private_slurm
from tests.slurm.live_cluster import NAME, LiveCluster, LiveProcess
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def one_slurm() -> Iterator[PrivateSlurm]:
    with private_slurm(nodes=(Node("n1"),), partitions=(Partition("vc1", ("n1",)),)) as slurm:
        yield slurm


def goes_on(cluster: LiveCluster, daemon: LiveProcess) -> None:
    """A job that comes now is ranked."""
    late = cluster.submit("train_u0")
    cluster.wait(lambda: late in cluster.ranked(), "the latecomer is ranked")
    assert daemon.process.poll() is None


@pytest.mark.evidence(table="faults", rows=("16",))
def test_mlflow_dies_and_publishes_what_is_damaged(
    cluster: LiveCluster,
    own_mlflow_server: MlflowServer,
    small_model_files: dict[str, list[Path]],
    evidence: Evidence,
) -> None:
    server = own_mlflow_server
    register_small_models(server.uri, small_model_files)
    shop = ReleaseShop(server, small_model_files)
    first, second = shop.approved(1), shop.approved(2)
    publish_release(tracking_uri=server.uri, cluster=NAME, version=first)
    block = cluster.block()
    for number in (5, 4, 3, 2, 0):
        cluster.submit(f"train_u{number}")
    daemon = cluster.started(tracking_uri=server.uri)
    name = release_name(NAME)
    cluster.wait(lambda: f"following {name} version {first}" in daemon.said(), "it follows the first")
    # Half of a model was stored.
    run_id = Registry(server.uri).version(name, second).run_id
    (path,) = (server.folder / "artifacts").rglob(f"{run_id}/artifacts/release/duration.json")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    Registry(server.uri).set_alias(name, "champion", second)
    status = cluster.state / "releases" / NAME / "status-champion.json"
    cluster.wait(lambda: f'"refused_version": {second}' in status.read_text(), "it refuses the second")
    goes_on(cluster, daemon)
    # The server dies: the last known good release stays.
    server.stop()
    cluster.wait(lambda: "did not answer" in status.read_text(), "it notices")
    goes_on(cluster, daemon)
    # Also for a daemon that starts then.
    daemon.kill()
    cluster.wait(lambda: not cluster.ranked(), "the order is Slurm's")
    daemon = cluster.start(tracking_uri=server.uri)
    cluster.wait(lambda: len(cluster.ranked()) == len(cluster.submitted), "all are ranked")
    # And the server comes back, with a release that is whole.
    path.write_bytes(whole)
    server.start()
    cluster.wait(lambda: f"following {name} version {second}" in daemon.said(), "it follows the second")
    goes_on(cluster, daemon)
    cluster.free(block)
    cluster.wait_ended()
    assert cluster.starts() == dict.fromkeys(cluster.submitted, 1)
    evidence(
        "faults",
        "16",
        "On a real Slurm a daemon that starts meanwhile ranks every job, and follows the new "
        "release when MLflow is back.",
    )
