"""The policy `site` starts whole streams of jobs when a real slurmctld started them."""

import pytest

from experiments.policies.site_streams import STREAMS, compare


@pytest.mark.parametrize("stream", ["fifo-1", "fair_share-1", "preemption-1"])
def test_each_job_starts_when_slurm_started_it(stream: str) -> None:
    compared = compare(STREAMS / stream, cycles=True)
    assert len(compared.slurm_s) == 500
    assert compared.within_pct(1.0) == 100.0
    assert compared.site_preemptions == compared.slurm_preemptions


@pytest.mark.parametrize(
    ("stream", "changes"),
    [
        ("fifo-1", {"scheduler": {"bf_max_job_test": 1}}),
        ("fair_share-1", {"priority": {"weight_fair_share": 0}}),
        ("preemption-1", {"preemption": {"mode": "off"}}),
    ],
)
def test_another_declaration_is_further_from_it(stream: str, changes: dict[str, dict[str, object]]) -> None:
    assert compare(STREAMS / stream, cycles=True, **changes).within_pct(30.0) < 90.0
