"""A release pins every setting of servers on loan, and of Lyra none of them."""

import re

import pytest

from foundation.errors import BadInputError, NotFoundError
from parts.lending.replay.released_loans import ReleasedLoans
from parts.lending.replay.settings import LoanSettings
from parts.lending.steps.release_settings import check_inference_load, pinned_loaning
from pipeline.release.release_settings import pinned_settings
from simulator.policies.registry import load_policy


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
