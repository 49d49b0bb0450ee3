"""Job by job against the Lucid artifact's own simulator on a week of the Philly log."""

import os
from pathlib import Path

import pytest

from simulator.fidelity import CASES, compare

DATA = os.environ.get("LUCID_REFERENCE_DATA")

pytestmark = [
    pytest.mark.reference,
    pytest.mark.skipif(not DATA, reason="LUCID_REFERENCE_DATA does not name the reference data"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_agrees_with_the_artifact(case):
    agreement = compare(case, Path(DATA) / "reference" / "lucid")
    assert agreement.jobs == 10_650
    if agreement.starts_within_2s is not None:
        assert agreement.starts_within_2s >= 0.999
        assert agreement.ends_within_2s >= 0.999
    assert agreement.mean_jct_s == pytest.approx(agreement.reference_mean_jct_s, rel=0.001)
    assert agreement.mean_queuing_s == pytest.approx(agreement.reference_mean_queuing_s, rel=0.001)
    if agreement.reference_preemptions is not None:
        assert agreement.preemptions == agreement.reference_preemptions


def test_fifo_and_sjf_agree_to_the_second_under_our_own_rules():
    for case in CASES:
        if case.policy in ("fifo", "sjf") and case.rules == "default":
            agreement = compare(case, Path(DATA) / "reference" / "lucid")
            assert agreement.starts_within_2s in (None, 1.0)
