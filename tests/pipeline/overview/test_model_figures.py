"""A model's figures stand beside the best naive rival's, in units that people read."""

import pytest

from lucid_models.catalogue import catalogue
from lucid_models.releases.manifest import MODEL_KINDS
from lucid_models.releases.optional_parts import optional_kinds
from pipeline.overview.model_figures import main_figures

TRAINED = {
    "mae_log10": 0.3,
    "kendall_tau": 0.7,
    "coverage_p90": 0.88,
    "baseline/ewma/mae_log10": 0.5,
    "baseline/size_alone/mae_log10": 0.9,
    "baseline/ewma/kendall_tau": 0.75,
    "baseline/size_alone/kendall_tau": 0.2,
}


def test_the_best_rival_stands_beside_and_a_lost_contest_is_said() -> None:
    error, order, coverage = main_figures("duration", TRAINED)
    assert (error.value, error.rival, error.rival_value, error.better) == (
        pytest.approx(10**0.3),
        "ewma",
        pytest.approx(10**0.5),
        True,
    )
    assert (order.rival, order.better) == ("ewma", False), "a higher tau is better"
    assert (coverage.value, coverage.rival) == (pytest.approx(88.0), None)


def test_what_was_not_measured_is_left_out() -> None:
    assert main_figures("duration", {"mae_log10": float("nan"), "r2_mean_head": 0.1}) == []


def test_every_model_that_a_release_may_pin_has_figures() -> None:
    shown = {kind for kind, entry in catalogue().items() if entry.figures}
    assert shown == {*MODEL_KINDS, *optional_kinds()}
