"""Some rounds of `way_back.py`, each way once: nothing is left, and "all are back" is said when it is so."""

from collections.abc import Iterator

import pytest

from tests.evidence import Evidence
from tests.slurm.conftest import private_slurm
from tests.slurm.live_cluster import LiveCluster
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm
from tests.slurm.way_back import SETTINGS, Mishap, Rounds, WayBackOutcome, table

pytestmark = pytest.mark.slow

JOBS = 60
# Row of docs/faults.md -> the ways that show it.
ROWS = {
    "23": (Mishap.KILLED, Mishap.ENDING_KILLED),
    "30": (Mishap.STOPPED_KILLED, Mishap.WOKEN_KILLED),
    "38": (Mishap.WOKEN_LATE,),
    "53": (Mishap.SWITCH_KILLED,),
}


@pytest.fixture(scope="module")
def one_slurm() -> Iterator[PrivateSlurm]:
    with private_slurm(nodes=(Node("n1"),), partitions=(Partition("vc1", ("n1",)),)) as slurm:
        yield slurm


@pytest.fixture
def live_settings() -> str:
    return SETTINGS


@pytest.mark.thorough("six daemons that are killed on a real Slurm: two minutes")
@pytest.mark.evidence(table="faults", rows=("23", "30", "38", "53"))
def test_nothing_is_left_and_what_is_said_is_so(cluster: LiveCluster, evidence: Evidence) -> None:
    rounds = Rounds(cluster, JOBS, seed=0)
    for way in Mishap:
        print(rounds.run(way))
    outcomes = rounds.outcomes
    assert all(outcome.clean for outcome in outcomes.values()), table(outcomes)
    for row, ways in ROWS.items():
        said = sum(outcomes[way].said for way in ways)
        evidence(
            "faults",
            row,
            f"The daemon is {'; or '.join(ways)}: of {JOBS} jobs' priorities and texts none is left, and each"
            f" of the {said} times at which the switch said that all are back they were.",
        )


def test_what_counts_as_clean() -> None:
    assert WayBackOutcome(rounds=1, said=1).clean
    for fault in ("texts_left", "priorities_left", "said_falsely", "unsaid"):
        assert not WayBackOutcome(rounds=1, **{fault: 1}).clean
    assert not WayBackOutcome(rounds=1, problems=["it took too long"]).clean
