"""Memory that a job did not ask for is unknown, whatever Slurm says in its place."""

import pytest

from cluster_logs.slurm_words import as_asked
from live_scheduler.cluster_state import LiveJob
from live_scheduler.slurm.adapter import as_asked_for

LEAST = 191_000.0


# As Slurm 22.05 writes requests, on nodes of 191,000 and 515,000 MiB without a default.
@pytest.mark.parametrize(
    ("tres", "asked"),
    [
        ("billing=1,cpu=1,gres/gpu=1,mem=191000M,node=1", "billing=1,cpu=1,gres/gpu=1,node=1"),
        ("billing=2,cpu=2,mem=382000M,node=2", "billing=2,cpu=2,node=2"),
        ("cpu=64,mem=191000M", "cpu=64"),
        ("billing=2,cpu=2,mem=191000M,node=2", None),  # half of it on each of two nodes was asked for
        ("billing=1,cpu=1,mem=4096M,node=1", None),
        ("cpu=1,mem=lots,node=1", None),
        ("cpu=1,node=1", None),
        ("", None),
    ],
)
def test_a_request_says_what_was_asked_for(tres: str, asked: str | None) -> None:
    assert as_asked(tres, LEAST) == (tres if asked is None else asked)
    assert as_asked(tres, None) == tres


@pytest.mark.parametrize(
    ("nodes", "memory_mib", "known"), [(None, LEAST, False), (2, 2 * LEAST, False), (2, LEAST, True)]
)
def test_a_live_job_says_what_it_asked_for(nodes: int | None, memory_mib: float, known: bool) -> None:
    facts = {"requested_memory_mib": memory_mib, "qos": "normal"}
    job = LiveJob("1", "vc1", "vc1", 1, 0.0, nodes=nodes, other_facts=facts)
    assert as_asked_for(job, {"vc1": LEAST}).other_facts == (facts if known else {"qos": "normal"})
    assert as_asked_for(job, {"vc2": LEAST}) is job
