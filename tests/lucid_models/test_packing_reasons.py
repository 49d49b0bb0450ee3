import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_models.packing.reasons import packing_reason


def step(feature: str, value: float | None, threshold: float, at_most: bool) -> dict:
    return {"feature": feature, "value": value, "threshold": threshold, "at_most": at_most}


@pytest.mark.parametrize(
    ("score", "decisions", "share", "samples", "said"),
    [
        (
            "JUMBO",
            [step("gpu_util_pct", 96.2, 74.0, False), step("gpu_mem_mib", 8_192.0, 6_000.0, False)],
            17 / 18,
            18.0,
            (
                "Jumbo because GPU utilisation 96 % is above 74 % and GPU memory 8.0 GiB is above 5.9 GiB "
                "(17 of 18 measured configurations like it are Jumbo)."
            ),
        ),
        (
            "MEDIUM",
            [
                step("gpu_util_pct", 74.2, 73.9, False),
                step("amp", 1.0, 0.5, False),
                step("gpu_util_pct", 74.2, 90.0, True),
            ],
            0.5,
            6.0,
            (
                "Medium because GPU utilisation 74.2 % is between 73.9 % and 90.0 % and it computes in mixed "
                "precision (3 of 6 measured configurations like it are Medium)."
            ),
        ),
        (
            "TINY",
            [step("gpu_mem_util_pct", None, 12.0, True), step("amp", 0.0, 0.5, True)],
            1.0,
            20.0,
            (
                "Tiny because GPU memory utilisation is unknown and taken as at most 12 % and it does not "
                "compute in mixed precision (20 of 20 measured configurations like it are Tiny)."
            ),
        ),
        (
            "TINY",
            [],
            0.6,
            20.0,
            "Tiny: the tree asks nothing (12 of 20 measured configurations like it are Tiny).",
        ),
    ],
)
def test_the_path_in_words(score, decisions, share, samples, said) -> None:
    assert packing_reason(score, decisions, share, samples) == said


percent = st.floats(0, 100, allow_nan=False)


@given(st.lists(percent, min_size=1, max_size=6), percent)
def test_what_is_printed_is_true(thresholds, value) -> None:
    """Whatever the rounding, the printed value lies where the sentence says."""
    decisions = [step("gpu_util_pct", value, threshold, value <= threshold) for threshold in thresholds]
    text = packing_reason("TINY", decisions, 1.0, 1.0)
    shown, limits = re.match(r"Tiny because GPU utilisation ([\d.]+) % is (.*) \(1 of 1", text).groups()
    numbers = [float(number) for number in re.findall(r"[\d.]+", limits)]
    if limits.startswith("between"):
        assert numbers[0] <= float(shown) <= numbers[1]
    elif limits.startswith("above"):
        assert float(shown) >= numbers[0]
    else:
        assert float(shown) <= numbers[0]


def test_every_job_of_a_trained_tree_has_its_path(packing_model) -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        row = [*rng.uniform(0, 100, 2), rng.uniform(0, 24_000), float(rng.integers(2))]
        reason = packing_model.explain_local(row)["reason"]
        assert re.match(r"(Tiny|Medium|Jumbo) because ", reason), reason
        assert "_" not in reason
