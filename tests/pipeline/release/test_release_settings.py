"""A release pins every setting of its policy, not only those that were chosen."""

import json
import re

import pytest

from foundation import parts
from foundation.errors import BadInputError, NotFoundError, UnknownNameError
from parts.lending.replay.released_loans import ReleasedLoans
from parts.lending.replay.settings import LoanSettings
from parts.lending.steps.release_settings import check_inference_load, pinned_loaning
from parts.node_sleep.replay.gate_limits import SleepGateRules
from pipeline.release.release_settings import gate_settings, pinned_settings
from simulator.gate.rules import GateRules
from simulator.policies.lucid import LucidSettings
from simulator.policies.registry import load_policy


def test_all_settings_are_pinned_and_the_policy_reads_them_back():
    pinned = pinned_settings({"sharing": "apathetic"})
    assert pinned["sharing"] == "apathetic"
    assert set(pinned) == set(vars(LucidSettings()))
    assert load_policy("lucid", pinned).settings == LucidSettings(sharing="apathetic")


def test_what_is_no_setting_of_the_policy_is_kept_apart():
    assert pinned_settings({"allow_simulated_profiles": True})["allow_simulated_profiles"] is True


def test_lyra_goes_by_estimates_and_says_nothing_of_loans():
    pinned = pinned_settings({"value_exponent": 1.5}, "lyra")
    assert (pinned["sizes"], pinned["value_exponent"], pinned["epoch_s"]) == ("estimated", 1.5, 60.0)
    assert not {"loaning", *vars(LoanSettings())} & set(pinned)
    assert not load_policy("lyra", pinned).oracle
    assert pinned_settings(pinned, "lyra") == pinned
    for chosen in ({"headroom": 0.05}, {"loaning": False}):
        with pytest.raises(BadInputError, match=f"{next(iter(chosen))!r} of the policy 'lyra'.*--loaning"):
            pinned_settings(chosen, "lyra")
    with pytest.raises(BadInputError, match="true run times"):
        pinned_settings({"sizes": "true"}, "lyra")


@pytest.mark.evidence(table="faults", rows=("21",))
def test_an_unknown_setting_and_a_bad_value_are_refused(evidence):
    with pytest.raises(UnknownNameError, match="sharing"):
        pinned_settings({"sharring": "none"})
    with pytest.raises(BadInputError, match="some"):
        pinned_settings({"sharing": "some"})
    evidence("faults", "21", "None is built: an unknown setting or a bad value is refused by name.")


def test_all_settings_of_servers_on_loan_are_pinned_and_read_back():
    pinned = pinned_loaning({"headroom": 0.05, "lend": "demand", "usage": "present"})
    assert set(pinned) == {*vars(LoanSettings()), "usage", "quantile"}
    assert ReleasedLoans.from_data(pinned) == ReleasedLoans(
        LoanSettings(headroom=0.05, lend="demand"), usage="present"
    )
    assert pinned_loaning({})["usage"] == "forecast"


@pytest.mark.parametrize(
    ("chosen", "named"),
    [
        ({"headrooms": 0.05}, "headroom"),
        ({"headroom": -0.05}, "headroom is -0.05"),
        ({"usage": "guess"}, "forecast"),
        ({"quantile": 1}, "quantile is 1"),
        ({"quantile": True}, "quantile is True"),
        ({"lend": "all"}, "demand"),
    ],
)
def test_a_setting_of_servers_on_loan_that_cannot_be_used_is_refused(chosen: dict[str, object], named: str):
    with pytest.raises(BadInputError, match=re.escape(named)):
        pinned_loaning(chosen)


def test_nothing_is_lent_where_no_inference_load_is_known(tmp_path):
    with pytest.raises(NotFoundError, match=r"no inference load of cluster 'venus'.*--loaning"):
        check_inference_load(str(tmp_path), "venus")


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


def test_parts_add_rules_to_the_gates(monkeypatch: pytest.MonkeyPatch):
    chosen = gate_settings({"wake_ups_per_day_limit": 7, "margin_pct": 3}).rules
    assert (SleepGateRules.of(chosen).wake_ups_per_day_limit, chosen.margin_pct) == (7.0, 3)
    assert chosen.to_data()["wake_ups_per_day_limit"] == 7.0
    assert GateRules.from_data(chosen.to_data()) == chosen
    with pytest.raises(BadInputError, match="wake_ups_per_day_limit is -1"):
        gate_settings({"wake_ups_per_day_limit": -1})
    monkeypatch.setattr(parts, "installed_parts", lambda: ())
    assert "wake_ups_per_day_limit" not in GateRules().to_data()
    for read in (gate_settings, GateRules.from_data):
        with pytest.raises(NotFoundError, match="belongs to the part 'node_sleep'"):
            read({"wake_ups_per_day_limit": 7})
