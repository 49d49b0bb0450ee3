"""What holds for the policies that Lyra is compared with, whatever the jobs and the load of inference."""

import pytest
from hypothesis import given, settings

from parts.lending.tests.workers.audited_replays import audited, scenarios
from simulator.scenario.scenario import Scenario

RIVALS = {"fifo": "lyra", "sjf": "lyra", "afs": "lyra", "gandiva": "default", "opportunistic": "default"}


@pytest.mark.parametrize(("policy", "rules"), RIVALS.items())
@settings(max_examples=20, deadline=None)
@given(scenario=scenarios())
def test_the_rivals_lose_no_job_either(policy: str, rules: str, scenario: Scenario) -> None:
    assert audited(scenario, policy, {}, rules=rules) == audited(scenario, policy, {}, rules=rules)
