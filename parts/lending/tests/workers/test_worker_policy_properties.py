"""What holds for Lyra, whatever the jobs and the load of inference."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from parts.lending.tests.workers.audited_replays import audited, scenarios
from simulator.scenario.scenario import Scenario


@settings(max_examples=60, deadline=None)
@given(
    scenarios(),
    st.fixed_dictionaries(
        {
            "loaning": st.booleans(),
            "scaling": st.booleans(),
            "order": st.sampled_from(["shortest", "submission"]),
            "special_placement": st.booleans(),
            "value_exponent": st.sampled_from([0.0, 1.5]),
            "reclaim": st.sampled_from(["exact", "reference", "scf", "random", "highest"]),
            "lend": st.sampled_from(["capacity", "demand"]),
            "hysteresis_servers": st.integers(0, 1),
            "hold_s": st.sampled_from([0.0, 600.0]),
            "sizes": st.sampled_from(["true", "estimated"]),
        }
    ),
)
def test_lyra_with_any_of_its_parts_loses_no_job_and_lends_no_headroom(
    scenario: Scenario, chosen: dict[str, Any]
) -> None:
    assert audited(scenario, "lyra", chosen) == audited(scenario, "lyra", chosen)
