"""Tables with a row a node: sizes, types and partitions are read, stored, and each node counts once."""

import numpy as np
import pandas as pd
import pytest

from cluster_logs.lake import Lake
from cluster_logs.log_statistics.capacity import capacity_of
from cluster_logs.node_table import counted, nodes_of_each
from cluster_logs.readers.nodes_file import read_nodes_file
from cluster_logs.readers.nodes_over_time import read_nodes_over_time
from foundation.errors import BadInputError
from simulator.cluster.spec import ClusterSpec

NODES = """node,gpus,gpu_type,cpus,memory_mib,partitions
n1,8,a100,128,1024000,"gpu,long"
n2,4,,64,512000,gpu;long
n3,4,v100,,,long
c1,0,,64,256000,"cpu, long"
"""

SCONTROL = """NodeName=n1 Arch=x86_64 CoresPerSocket=1
   CPUAlloc=0 CPUEfctv=64 CPUTot=64 CPULoad=3.33
   Gres=gpu:a100:4(S:0-1)
   RealMemory=256000 AllocMem=0 FreeMem=N/A Sockets=64 Boards=1
   State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1
   Partitions=gpu,long
   CfgTRES=cpu=64,mem=250G,billing=64,gres/gpu=4
   Reason=Partitions=none NodeName=x Gres=gpu:99 [root@2026-11-27]

NodeName=n2 CPUTot=32 RealMemory=128000 Gres=gpu:8 Partitions=long State=IDLE
NodeName=spare CPUTot=32 RealMemory=128000 Gres=gpu:8 State=IDLE

PartitionName=gpu
   Nodes=n1 TotalCPUs=64
"""


def written(folder, text, name="nodes.csv"):
    path = folder / name
    path.write_text(text)
    return str(path)


def test_a_row_a_node_says_sizes_types_and_partitions(tmp_path):
    nodes = read_nodes_file(written(tmp_path, NODES))
    assert nodes["node"].tolist() == ["n1", "n2", "n3", "c1"]
    assert nodes["virtual_cluster"].tolist() == ["gpu", "gpu", "long", "cpu"]
    assert nodes["nodes"].tolist() == [1, 1, 1, 1]
    assert nodes["gpus_per_node"].tolist() == [8, 4, 4, 0]
    assert nodes["partitions"].fillna("").tolist() == ["gpu,long", "gpu,long", "", "cpu,long"]
    assert nodes["gpu_type"].fillna("").tolist() == ["a100", "", "v100", ""]
    assert nodes["cpus_per_node"].fillna(-1).tolist() == [128, 64, -1, 64]
    assert nodes["memory_mib_per_node"].fillna(-1).tolist() == [1024000, 512000, -1, 256000]


def test_the_same_table_is_replayed_from_the_file_and_from_the_lake(tmp_path):
    path = written(tmp_path, NODES)
    lake = Lake(str(tmp_path / "lake"))
    lake.write_nodes("mine", read_nodes_file(path))
    for nodes in (read_nodes_over_time(path), lake.read_nodes("mine")):
        cluster = ClusterSpec.from_nodes(nodes)
        assert (cluster.nodes, cluster.total_gpus) == (3, 16)
        assert sorted(cluster.open_sizes("gpu")) == [4, 8]
        assert sorted(cluster.open_sizes("long")) == [4, 4, 8]
        assert cluster.open_sizes("cpu") == ()
    plain = pd.DataFrame({"virtual_cluster": ["a"], "nodes": [2], "gpus_per_node": [8]})
    lake.write_nodes("plain", plain)
    assert list(lake.read_nodes("plain")) == ["virtual_cluster", "nodes", "gpus_per_node"]


def test_each_gpu_counts_once_in_the_cluster_and_in_each_virtual_cluster_that_may_use_it(tmp_path):
    nodes = read_nodes_file(written(tmp_path, NODES))
    assert nodes_of_each(nodes)["gpus"].to_dict() == {"gpu": 12, "long": 16, "cpu": 0}
    capacity = capacity_of(nodes.assign(from_s=-np.inf))
    assert capacity.at(np.array([0.0])).tolist() == [16]
    assert capacity.of("gpu", np.array([0.0])).tolist() == [12]
    assert capacity.of("long", np.array([0.0])).tolist() == [16]
    assert capacity.nodes_on(0.0) == 4


def test_what_counts_in_equal_nodes_says_so(tmp_path):
    with pytest.raises(BadInputError, match="The plan counts in equal nodes"):
        counted(read_nodes_file(written(tmp_path, NODES)), "The plan")
    equal = read_nodes_file(written(tmp_path, "node,gpus,partitions\nn1,8,a\nn2,8,a\nn3,8,b\n"))
    table = counted(equal, "The plan")
    assert dict(zip(table["virtual_cluster"], table["nodes"], strict=True)) == {"a": 2, "b": 1}


def test_what_scontrol_prints_is_a_table_of_nodes(tmp_path):
    path = written(tmp_path, SCONTROL, "nodes.txt")
    nodes = read_nodes_file(path)
    assert nodes.fillna("-").values.tolist() == [
        ["gpu", 1, 4, "n1", "gpu,long", "a100", 64, 256000],
        ["long", 1, 8, "n2", "-", "-", 32, 128000],
    ]
    assert read_nodes_over_time(path)["from_time"].isna().all()
    assert ClusterSpec.from_nodes(nodes).open_sizes("long") == (4, 8)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("node,gpus,partitions\nn1,8,a\nn1,8,b\n", "names node 'n1' twice"),
        ("node,gpus,partitions\n,8,a\n", "The node has no name"),
        ("node,gpus\nn1,8\n", "no column of the virtual clusters"),
        ("node,gpus,partitions\nn1,,a\n", "A count is not there"),
        ("node,gpus,partitions\nn1,8,;\n", "belongs to no virtual cluster"),
        ("node,gpus,cpus,partitions\nn1,8,-1,a\n", "below zero"),
        ("virtual_cluster,nodes,gpus_per_node\na,1,8\na,2,8\n", "'a' twice"),
        ("NodeName=n1 CPUTot=2 Gres=gpu:8 Partitions=a\n", "node 'n1' has RealMemory=''"),
        ("NodeName=n1 CPUTot=2 RealMemory=9 Gres=gpu:8\n", "no node of a partition"),
    ],
)
def test_a_table_that_says_less_or_twice_is_refused(tmp_path, text, says):
    with pytest.raises(BadInputError, match=says):
        read_nodes_file(written(tmp_path, text))


def test_a_virtual_cluster_with_nodes_of_two_sizes_has_two_rows(tmp_path):
    path = written(tmp_path, "virtual_cluster,nodes,gpus_per_node\na,1,8\na,2,4\n")
    assert ClusterSpec.from_nodes(read_nodes_file(path)).sizes("a") == (8, 4, 4)
    assert ClusterSpec.from_nodes(read_nodes_over_time(path)).total_gpus == 16
