"""What the gate asks of a release whose nodes sleep."""

import pytest

from foundation import parts
from foundation.errors import BadInputError, NotFoundError
from parts.node_sleep.replay.gate_limits import SleepEvidence, SleepGateRules, sleeping_nodes
from pipeline.release.release_settings import gate_settings
from simulator.gate.rules import GateRules

RULES = GateRules()
GOOD = SleepEvidence(0.7, 0.002, {0.5: 0.55, 0.9: 0.88}, 4.0)


def test_every_figure_within_its_limit_passes_and_is_told() -> None:
    judged = {one.name: one for one in sleeping_nodes(GOOD, RULES)}
    assert all(one.passed for one in judged.values())
    assert judged["sleeping_nodes_wake_ups"].sentence == (
        "Nodes woke: 0.7 wake-ups a day, within the limit of 3 wake-ups a day."
    )
    assert judged["sleeping_nodes_coverage"].challenger == pytest.approx(2.0)  # 0.9 held in 88 %


@pytest.mark.parametrize(
    ("seen", "blocked"),
    [
        (SleepEvidence(3.5, 0.002, {}, 4.0), "sleeping_nodes_wake_ups"),
        (SleepEvidence(0.7, 0.2, {}, 4.0), "sleeping_nodes_short"),
        (SleepEvidence(0.7, 0.002, {}, 61.0), "sleeping_nodes_added_queuing"),
        (SleepEvidence(0.7, 0.002, {0.5: 0.6, 0.95: 0.8}, 4.0), "sleeping_nodes_coverage"),
    ],
)
def test_what_is_beyond_its_limit_blocks(seen: SleepEvidence, blocked: str) -> None:
    assert [one.name for one in sleeping_nodes(seen, RULES) if one.passed is False] == [blocked]


def test_what_could_not_be_measured_neither_passes_nor_blocks() -> None:
    judged = sleeping_nodes(SleepEvidence(unmeasured="the lake has no counts of nodes."), RULES)
    assert [one.passed for one in judged] == [None, None, None]
    assert all("no counts of nodes" in one.sentence for one in judged)


def test_its_limits_are_rules_of_the_gate(monkeypatch: pytest.MonkeyPatch):
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
