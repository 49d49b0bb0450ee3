"""Where Slurm 22.05.8 put jobs, on six nodes of eight GPUs: read off its starts."""

import pytest

from simulator.cluster.placement import FreeGpus
from simulator.slurm.room import NodeRoom, each_bit, smallest_sets


def room(free: list[int]) -> NodeRoom:
    gpus = FreeGpus(len(free), 8)
    gpus.take(tuple((node, 8 - left) for node, left in enumerate(free) if left < 8))
    return NodeRoom(gpus)


@pytest.mark.parametrize(
    ("free", "gpus", "node"),
    [
        ([0, 3, 6, 0, 2, 5], 1, 1),
        ([5, 6, 8, 0, 8, 3], 1, 4),
        ([2, 0, 2, 0, 8, 8], 1, 0),
        ([7, 0, 3, 0, 8, 8], 1, 0),
        ([0, 8, 2, 8, 8, 8], 1, 1),
        ([1, 0, 8, 7, 8, 8], 4, 2),
        ([0, 0, 0, 8, 8, 5], 4, 3),
    ],
)
def test_a_job_goes_to_the_smallest_set_of_neighbours(free: list[int], gpus: int, node: int) -> None:
    assert room(free).find(gpus, 0b111111, whole=True) == ((node, gpus),)


def test_a_gang_takes_whole_nodes_and_a_part_of_one_more() -> None:
    assert room([8, 0, 8, 8, 0, 8]).find(16, 0b111111, whole=False) == ((2, 8), (3, 8))
    assert room([8, 0, 8, 0, 8, 8]).find(20, 0b111111, whole=False) == ((4, 8), (5, 8), (0, 4))
    assert room([8, 0, 0, 0, 0, 4]).find(16, 0b111111, whole=False) is None
    assert room([8, 8, 8, 8, 8, 8]).find(8, 0b001000, whole=True) == ((3, 8),)


def test_sets_are_taken_until_there_are_enough() -> None:
    assert smallest_sets(0b1100110111, 4) == [0, 1, 2, 4]
    assert smallest_sets(0b1110110, 2) == [1, 2]
    assert list(each_bit(0b10110)) == [1, 2, 4]
