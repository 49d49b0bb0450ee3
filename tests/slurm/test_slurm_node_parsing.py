"""Nodes as sinfo tells them: which start jobs, and which of their GPUs are in use."""

import pytest

from foundation.errors import ServiceUnavailableError
from live_scheduler.slurm.node_reading import NodeKind, gpus_used, parse_nodes, starts_jobs


@pytest.mark.parametrize(
    ("state", "starts"),
    [
        ("idle", True),
        ("mixed", True),
        ("allocated", True),
        ("allocated+completing", True),
        ("idle+planned", True),
        ("mixed-", True),
        ("idle~", True),
        ("idle+cloud+powered_down", True),
        ("down", False),
        ("down*", False),
        ("idle*", False),
        ("idle+drain", False),
        ("mixed+drain", False),
        ("drained", False),
        ("draining", False),
        ("reserved", False),
        ("idle+reserved", False),
        ("idle+maint", False),
        ("maint", False),
        ("idle$", False),
        ("fail", False),
        ("failing", False),
        ("unknown", False),
        ("idle+reboot_issued", False),
        ("powering_down", False),
        ("some_new_word", False),
        ("idle+some_new_flag", True),
        ("idle+dynamic_norm", True),
        ("mixed+dynamic_norm", True),
        ("idle+dynamic_norm+planned", True),
        ("idle+dynamic_norm+powered_down", True),
        ("idle+drain+dynamic_norm", False),
        ("idle+dynamic_norm+reserved", False),
        ("idle+external", True),
        ("allocated+perfctrs", True),
        ("idle+power_down", True),
        ("idle+blocked", False),
        ("idle+dynamic_norm+invalid_reg", False),
        ("idle^", False),
        ("", False),
    ],
)
def test_which_nodes_start_jobs(state: str, starts: bool) -> None:
    assert starts_jobs(state) is starts


@pytest.mark.parametrize(
    ("gres", "used"),
    [
        ("gpu:0", 0),
        ("gpu:3", 3),
        ("gpu:a100:3(IDX:0-2)", 3),
        ("gpu:a100:1(IDX:0),gpu:v100:2(IDX:4-5)", 3),
        ("gpu:0,shard:0", 0),
        # As Slurm 22.05 has it: a whole GPU was given where a job had a share of it, and beside one.
        ("gpu:1,shard:(null):1(IDX:0),mps:0", 1),
        ("gpu:1,shard:(null):1(IDX:1),mps:0", 2),
        ("gpu:1,shard:0,mps:(null):1(IDX:0)", 1),
        ("gpu:1,shard:(null):2(IDX:0-1)", 2),
        ("gpu:a100:1(IDX:1),shard:a100:4(IDX:1)", 1),
        ("gpu:a100:1(IDX:0),gpu:1", 2),
        ("gpu:0,mps:a100:60(40/100,20/100)", 2),
        # Slices are not GPUs: seven are one.
        ("gpu:a100:1(IDX:0),gpu:a100_1g.5gb:2(IDX:1-2)", 2),
        ("gpu:a100_1g.5gb:0(IDX:N/A)", 0),
        ("gpu:x,shard:(IDX:0-y)", 1),
        ("gpu:0,shard:(null):1(IDX:3)", 1),
        ("gpu:a100:0(IDX:N/A),shard:a100:3(2/4,1/4,0/4)", 2),
        ("(null)", 0),
        ("", 0),
    ],
)
def test_gpus_in_use(gres: str, used: int) -> None:
    assert gpus_used(gres) == used


def test_nodes_in_several_partitions_are_one_node() -> None:
    read = parse_nodes(
        [
            "n1|vc1|up|infinite|mixed|64|256000|gpu:4|gpu:3|",
            "n1|debug|up|1:00:00|mixed|64|256000|gpu:4|gpu:3|",
            "n2|vc1|up|infinite|idle+drain|64|191000|gpu:4|gpu:0|",
            "n3|old|drain|2-00:00:00|idle|16|64000|gpu:k80:2|gpu:k80:0|",
            "n3|vc3|inact|infinite|idle|16|64000|gpu:k80:2|gpu:k80:0|",
            "n4|vc3|inact|infinite|idle|16|64000|(null)|(null)|",
            "m1|mig|up|infinite|mixed|64|256000|gpu:a100:2,gpu:a100_1g.5gb:7|gpu:a100:0(IDX:N/A),gpu:a100_1g.5gb:3(IDX:2-4)|",
        ]
    )
    n1, n2, n3, n4, cut = read.nodes
    assert (n1.partitions, n1.gpus, n1.gpus_used, n1.available) == (("vc1", "debug"), 4, 3, True)
    assert not n2.available
    assert (n3.gpus, n4.gpus) == (2, 0)
    assert (cut.gpus, cut.gpus_used) == (3, 1)
    assert read.closed == {"old", "vc3"}
    assert read.longest_run_s == {"debug": 3600.0, "old": 172_800.0}
    assert read.least_memory_mib == {
        "vc1": 191_000,
        "debug": 256_000,
        "old": 64_000,
        "vc3": 64_000,
        "mig": 256_000,
    }
    assert read.kinds == {
        "vc1": NodeKind(4, 64),
        "debug": NodeKind(4, 64),
        "old": NodeKind(2, 16),
        "mig": NodeKind(3, 64),
    }
    with pytest.raises(ServiceUnavailableError):
        parse_nodes(["n1|vc1|up"])
