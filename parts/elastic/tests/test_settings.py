"""Settings of elastic policies: what is refused, what a release pins, what is live."""

import json

import pytest

from foundation.errors import BadInputError, UnknownNameError
from live_scheduler.deciding.live_policies import live_policy_names
from pipeline.release.release_settings import pinned_settings
from simulator.policies.registry import elastic_policy_names, load_policy


def test_a_lease_takes_time():
    with pytest.raises(BadInputError, match="lease_s"):
        load_policy("themis", {"lease_s": 0})


def test_a_live_cluster_follows_those_that_leave_running_jobs_alone():
    assert set(elastic_policy_names()) & set(live_policy_names()) == {"elastic_fifo", "pcs"}


def test_a_configuration_of_pcs_is_pinned_as_what_it_amounts_to():
    pinned = pinned_settings({"configuration": "fig7-bal", "efficiency_step": 0.5}, "pcs")
    assert (pinned["sizes"], pinned["resizes"]) == ("estimated", False)
    assert "configuration" not in pinned
    assert pinned["thresholds_s"] == [2389.0, 1703593.0, "inf"]
    again = json.loads(json.dumps(pinned, allow_nan=False))
    config = load_policy("pcs", again).settings.config()
    assert (
        config == load_policy("pcs", {"configuration": "fig7-bal", "efficiency_step": 0.5}).settings.config()
    )
    assert pinned_settings(again, "pcs") == pinned
    with pytest.raises(UnknownNameError, match="gss"):
        pinned_settings({"gss": 2}, "pcs")
    with pytest.raises(BadInputError, match="reads true run times"):
        pinned_settings({"sizes": "true"}, "pcs")
