"""What a real Slurm says of nodes of several sizes, and of partitions that share them, is replayed."""

from pathlib import Path

import pytest

from cluster_logs.lake import Lake
from cluster_logs.readers.nodes_file import read_nodes_file
from live_scheduler.slurm.commands import call
from simulator.cluster.spec import ClusterSpec
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm

pytestmark = pytest.mark.slow


def test_sizes_and_shared_partitions_are_read_from_scontrol(
    own_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = (Node("n1", gpus=8), Node("n2", gpus=4, cpus=32), Node("n3", gpus=4, memory_mib=128_000))
    partitions = (
        Partition("gpu", ("n1", "n2")),
        Partition("long", ("n2", "n3")),
        Partition("all", ("n1", "n2", "n3")),
    )
    with PrivateSlurm(own_folder, nodes, partitions) as slurm:
        monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
        (tmp_path / "nodes.txt").write_text(call(["scontrol", "--all", "show", "node"]))
        (tmp_path / "more.txt").write_text(
            call(["scontrol", "--all", "show", "node"]) + "\n" + call(["scontrol", "show", "partition"])
        )
    table = read_nodes_file(str(tmp_path / "nodes.txt"))
    assert table.equals(read_nodes_file(str(tmp_path / "more.txt")))
    assert table["gpus_per_node"].tolist() == [8, 4, 4]
    assert table["cpus_per_node"].tolist() == [64, 32, 64]
    assert table["memory_mib_per_node"].tolist() == [256_000, 256_000, 128_000]
    Lake(str(tmp_path / "lake")).write_nodes("mini", table)
    cluster = ClusterSpec.from_nodes(Lake(str(tmp_path / "lake")).read_nodes("mini"))
    assert (cluster.nodes, cluster.total_gpus) == (3, 16)
    assert {name: sorted(cluster.open_sizes(name)) for name in cluster.names} == {
        "gpu": [4, 8],
        "long": [4, 4],
        "all": [4, 4, 8],
    }
