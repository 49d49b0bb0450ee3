"""A release pins every setting of its policy, not only those that somebody chose."""

import pytest

from cluster_logs.errors import BadInputError, UnknownNameError
from pipeline.release_settings import gate_settings, pinned_settings
from simulator.policies.lucid import LucidSettings
from simulator.policies.registry import load_policy


def test_all_settings_are_pinned_and_the_policy_reads_them_back():
    pinned = pinned_settings({"sharing": "apathetic"})
    assert pinned["sharing"] == "apathetic"
    assert set(pinned) == set(vars(LucidSettings()))
    assert load_policy("lucid", pinned).settings == LucidSettings(sharing="apathetic")


def test_what_is_no_setting_of_the_policy_is_kept_apart():
    assert pinned_settings({"allow_simulated_profiles": True})["allow_simulated_profiles"] is True


def test_an_unknown_setting_and_a_bad_value_are_refused():
    with pytest.raises(UnknownNameError, match="sharing"):
        pinned_settings({"sharring": "none"})
    with pytest.raises(BadInputError, match="some"):
        pinned_settings({"sharing": "some"})


def test_the_gates_rules_by_name():
    chosen = gate_settings({"fifo_margin_pct": 1.0}, "log")
    assert chosen.rules.fifo_margin_pct == 1.0
    assert chosen.job_types == "log"
    with pytest.raises(UnknownNameError, match="fifo_margin_pct"):
        gate_settings({"fifo_margin": 1.0})
    with pytest.raises(UnknownNameError, match="drawn"):
        gate_settings({}, "guessed")
    with pytest.raises(BadInputError, match="-1"):
        gate_settings({"fifo_margin_pct": -1.0})
