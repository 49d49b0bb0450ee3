"""What acts beside the policy, with a companion that the simulator does not know."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from foundation import parts
from foundation.errors import BadInputError, NotFoundError, UnknownNameError
from foundation.parts import Part
from pipeline.replay.figures import draw_figures
from pipeline.replay.report import write_results
from simulator.cluster.spec import ClusterSpec
from simulator.conformance import sample_workload
from simulator.engine.simulation import Simulation
from simulator.policies.registry import load_policy
from simulator.policy import Policy
from simulator.replay import load_with_parts, simulate
from simulator.scenario.agenda import Agenda, EventKind
from simulator.scenario.companion import (
    Attached,
    Beginning,
    Companion,
    CompanionEvent,
    Floats,
    OverTime,
    companion_names,
    companion_of,
)
from simulator.scenario.initial_state import InitialState, PoolNodes
from simulator.scenario.rules import DEFAULT, Rules
from simulator.scenario.scenario import Scenario
from simulator.snapshot import ASLEEP, NodePool
from simulator.workload.job import Job
from simulator.workload.workload import Workload

CLOSED = "closed by the door"
KEY = "door"


@dataclass(frozen=True, slots=True)
class Opening(CompanionEvent):
    companion: ClassVar[str] = KEY
    only_looks: ClassVar[bool] = True
    node: int


@dataclass(frozen=True)
class Steps(OverTime):
    name: ClassVar[str] = "doors"
    counters: ClassVar[tuple[str, ...]] = ("closed",)
    at_s: Floats
    closed: Floats

    def columns(self) -> Mapping[str, Floats]:
        return {"at_s": self.at_s, "closed": self.closed}

    @classmethod
    def drawn(cls, by_policy: Mapping[str, "Steps"], *, from_s: float) -> Figure:
        return Figure()


class ClosedNode(Attached):
    """Node 0 of each virtual cluster is closed until a moment."""

    def __init__(self, beginning: Beginning, opens_s: float) -> None:
        self.pools = [beginning.pools[name] for name in beginning.virtual_clusters]
        self.agenda: Agenda = beginning.agenda
        self.opens_s, self.begun_s = opens_s, beginning.now_s
        self.looks: int = 0 if beginning.memory is None else beginning.memory

    def begin(self) -> None:
        if any(isinstance(event[3], Opening) for event in self.agenda.events):
            return
        for pool in self.pools:
            pool.close(0, CLOSED)
        self.agenda.push(self.opens_s, EventKind.CLUSTER, Opening(0))

    def memory(self) -> int:
        return self.looks

    def happen(self, event: Opening, now_s: float) -> Collection[NodePool]:
        assert now_s == self.opens_s
        for pool in self.pools:
            pool.reopen(event.node, CLOSED)
        return self.pools

    def look(self, now_s: float, *, more_jobs: bool) -> bool:
        self.looks += 1
        return False

    def summary(self, end_s: float, mean_gpus: float, jobs: Any) -> dict[str, Any]:
        return {"looks": self.looks}

    def kept(self) -> Steps:
        return Steps(np.array([0.0, self.opens_s]), np.array([1.0, 0.0]))


@dataclass(frozen=True)
class Door(Companion):
    key: ClassVar[str] = KEY
    noun: ClassVar[str] = "Doors"
    opens_s: float

    def attach(self, beginning: Beginning) -> ClosedNode:
        return ClosedNode(beginning, self.opens_s)


def door_of(settings: Mapping[str, Any], seed: int) -> Door:
    return Door(settings["opens_s"] + seed)


JOBS = Workload((Job("a", "vc", "u", 8, 0.0, 100.0), Job("b", "vc", "u", 8, 0.0, 100.0)), {})
SCENARIO = Scenario(JOBS, ClusterSpec({"vc": 2}), companions=(Door(50.0),))


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> None:
    part = Part(
        "doors",
        "Doors",
        companions={KEY: f"{__name__}:door_of"},
        policy_loader=f"{__name__}:load_in_order",
    )
    monkeypatch.setattr(parts, "installed_parts", lambda: (part,))


def load_in_order(
    load: Any, name: str, settings: Mapping[str, Any] | None, rules: Rules, scenario: Scenario | None = None
) -> Policy:
    """Take the setting `in_order` out, under which every policy is FIFO."""
    given = dict(settings or {})
    return load("fifo" if given.pop("in_order", False) else name, given, rules)  # type: ignore[no-any-return]


def test_it_closes_nodes_foresees_and_adds_to_the_result() -> None:
    result = simulate(SCENARIO, "fifo")
    assert result.jobs["first_start_time_s"].tolist() == [0.0, 50.0]
    assert result.summary["looks"] == 4  # submissions, the opening, two ends
    assert result.summary["engine"] == "python"
    assert result.kept[KEY].closed.tolist() == [1.0, 0.0]
    alone = simulate(SCENARIO.without(SCENARIO.companions[0]), "fifo")
    assert alone.jobs["first_start_time_s"].tolist() == [0.0, 0.0]
    assert not alone.kept


def test_a_scenario_has_one_of_a_kind() -> None:
    later = SCENARIO.beside(Door(70.0))
    assert later.companions == (Door(70.0),)
    assert later.companion(Door) == Door(70.0)
    assert later.lender is None


def test_a_simulation_that_goes_on_takes_its_memory_and_what_it_foresees() -> None:
    whole = Simulation(SCENARIO, load_policy("fifo"))
    whole.run()
    first = Simulation(SCENARIO, load_policy("fifo"))
    first.run(20.0)
    state = first.state()
    assert state.companions == {KEY: 1}
    rest = Scenario(Workload((), {}), first.cluster, companions=SCENARIO.companions, initial=state)
    second = Simulation(rest, load_policy("fifo"))
    second.run()
    assert [job.end_time_s for job in second.jobs] == [job.end_time_s for job in whole.jobs]
    assert second.state().companions == whole.state().companions


def test_what_it_keeps_over_time_is_written_and_drawn(tmp_path: Any) -> None:
    results = {"fifo": simulate(SCENARIO, "fifo")}
    assert tmp_path / "doors_fifo.csv" in write_results(results, tmp_path)
    assert pd.read_csv(tmp_path / "doors_fifo.csv")["closed"].tolist() == [1, 0]
    assert tmp_path / "doors.png" in draw_figures(results, tmp_path)


def test_unequal_nodes_are_refused_by_its_name() -> None:
    workload, cluster = sample_workload("shared", 0, 20)
    with pytest.raises(BadInputError, match="Doors need equal nodes"):
        simulate(Scenario(workload, cluster, companions=(Door(1.0),)), "fifo")


def test_nodes_that_sleep_from_the_start_need_a_companion_that_wakes_them() -> None:
    nodes = {"vc": PoolNodes(2, 8, closed={0: frozenset({ASLEEP})})}
    asleep = replace(SCENARIO, initial=InitialState(0.0, nodes=nodes))
    with pytest.raises(BadInputError, match="has nothing that wakes them"):
        Simulation(asleep, load_policy("fifo"))


@pytest.mark.usefixtures("offered")
def test_parts_offer_companions_and_settings_of_any_policy() -> None:
    assert companion_names() == [KEY]
    assert companion_of(KEY, {"opens_s": 5}, seed=2) == Door(7)
    with pytest.raises(UnknownNameError, match="door"):
        companion_of("window", {})
    with pytest.raises(NotFoundError, match="node_sleep"):
        companion_of("node_sleep", {})
    assert type(load_with_parts("sjf", {"in_order": True}, DEFAULT)).__name__ == "Fifo"
    assert type(load_with_parts("sjf", {"in_order": False}, DEFAULT)).__name__ == "Sjf"
