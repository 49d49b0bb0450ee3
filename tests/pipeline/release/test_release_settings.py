"""A release pins every setting of its policy, not only those that were chosen."""

import json
import re

import pytest

from foundation.errors import BadInputError, UnknownNameError
from pipeline.release.release_settings import gate_settings, pinned_settings
from simulator.policies.lucid import LucidSettings
from simulator.policies.registry import load_policy


def test_all_settings_are_pinned_and_the_policy_reads_them_back():
    pinned = pinned_settings({"sharing": "apathetic"})
    assert pinned["sharing"] == "apathetic"
    assert set(pinned) == set(vars(LucidSettings()))
    assert load_policy("lucid", pinned).settings == LucidSettings(sharing="apathetic")


def test_what_is_no_setting_of_the_policy_is_kept_apart():
    assert pinned_settings({"allow_simulated_profiles": True})["allow_simulated_profiles"] is True


@pytest.mark.evidence(table="faults", rows=("21",))
def test_an_unknown_setting_and_a_bad_value_are_refused(evidence):
    with pytest.raises(UnknownNameError, match="sharing"):
        pinned_settings({"sharring": "none"})
    with pytest.raises(BadInputError, match="some"):
        pinned_settings({"sharing": "some"})
    evidence("faults", "21", "None is built: an unknown setting or a bad value is refused by name.")


def test_the_gates_rules_by_name():
    chosen = gate_settings({"p999_margin_pct": 1.0}, "log")
    assert chosen.rules.p999_margin_pct == 1.0
    assert chosen.job_types == "log"
    with pytest.raises(UnknownNameError, match="p999_margin_pct"):
        gate_settings({"p999_margin": 1.0})
    with pytest.raises(UnknownNameError, match="drawn"):
        gate_settings({}, "guessed")
    with pytest.raises(BadInputError, match="-1"):
        gate_settings({"p999_margin_pct": -1.0})


def test_an_installation_sets_the_gates_rules_for_all_verdicts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LUCID_GATE_RULES", '{"margin_pct": 1.5, "unproven": "publish_harmless"}')
    own = gate_settings({})
    assert (own.rules.margin_pct, own.rules.unproven, own.stated) == (1.5, "publish_harmless", ())
    chosen_for = own.preferring({"objective": "p99_pred_err_pct", "jct_price_pct": 40.0})
    assert (chosen_for.rules.jct_price_pct, chosen_for.rules.margin_pct) == (40.0, 1.5)
    what_if = gate_settings({"margin_pct": 9})
    assert (what_if.rules.margin_pct, what_if.rules.unproven) == (9, "publish_harmless")
    assert what_if.stated == ("margin_pct",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("margin_pct=1", "LUCID_GATE_RULES is not JSON"),
        ("[1]", "not an object"),
        ('{"margin": 1}', "LUCID_GATE_RULES: Unknown gate setting 'margin'"),
        ('{"margin_pct": -1}', "LUCID_GATE_RULES: The gate's margin_pct is -1"),
        ('{"unproven": "hope"}', "LUCID_GATE_RULES: Unknown answer to a window that proves nothing 'hope'"),
    ],
)
def test_rules_that_an_installation_gets_wrong_are_named(monkeypatch: pytest.MonkeyPatch, text, said):
    monkeypatch.setenv("LUCID_GATE_RULES", text)
    with pytest.raises(BadInputError, match=re.escape(said)):
        gate_settings({})


def test_names_that_do_not_exist_and_true_run_times_are_refused():
    assert pinned_settings({}, "fifo") == {}
    with pytest.raises(UnknownNameError, match="policy 'pccs'"):
        pinned_settings({}, "pccs")
    with pytest.raises(BadInputError, match="reads true run times"):
        pinned_settings({}, "sjf")


def test_the_gate_goes_by_what_a_release_was_chosen_for_unless_a_person_says_otherwise():
    choice = {"objective": "p99_pred_err_pct", "jct_price_pct": 40.0, "point": "3"}
    preferred = gate_settings({"resamples": 400}).preferring(choice).rules
    assert (preferred.objective, preferred.jct_price_pct, preferred.resamples) == (
        "p99_pred_err_pct",
        40,
        400,
    )
    stated = gate_settings({"objective": "mean_jct_s"}).preferring(choice).rules
    assert (stated.objective, stated.jct_price_pct) == ("mean_jct_s", 40)
    assert gate_settings({}).preferring(None).rules == gate_settings({}).rules


@pytest.mark.parametrize(
    ("policy", "setting"),
    [("lucid", "profiling_limit_s"), ("fair_share", "half_life_s"), ("tiresias", "threshold_gpu_s")],
)
def test_a_whole_number_is_pinned_as_its_setting_is_declared(policy: str, setting: str) -> None:
    pinned = [pinned_settings({setting: value}, policy) for value in (60, 60.0)]
    assert json.dumps(pinned[0]) == json.dumps(pinned[1])
    assert isinstance(pinned[0][setting], float)


def test_a_share_is_pinned_as_a_float_too() -> None:
    assert json.dumps(pinned_settings({"shares": {"ann": 2}}, "fair_share")["shares"]) == '{"ann": 2.0}'
