"""The trace-driven simulator, its policies, and the gate that judges a release.

    result = simulate(Scenario(Workload(jobs, {}), ClusterSpec({"vc": nodes})), "qssf")

A policy is a subclass of `Policy`: it reads a `Snapshot`, with a `JobView` a job, and returns actions
(`actions.py`); `policy_names` has ours and those that other packages offer, `load_policy` makes one by its
name (CONTRIBUTING.md, "Add a policy"). `judge` compares a challenger's results with the others' and returns
a `Verdict`. Estimates, scores and forecasts come in as values: no model is known here.
"""

from typing import TYPE_CHECKING

from foundation.lazy_names import lazy_names

if TYPE_CHECKING:
    from simulator.cluster.spec import ClusterSpec as ClusterSpec
    from simulator.gate.judge import judge as judge
    from simulator.gate.verdict import Verdict as Verdict
    from simulator.job_view import JobView as JobView
    from simulator.policies.registry import load_policy as load_policy
    from simulator.policies.registry import policy_names as policy_names
    from simulator.policy import Policy as Policy
    from simulator.policy import start_from_front as start_from_front
    from simulator.replay import simulate as simulate
    from simulator.results.result import SimulationResult as SimulationResult
    from simulator.scenario.scenario import Scenario as Scenario
    from simulator.snapshot import Snapshot as Snapshot
    from simulator.workload.job import Job as Job
    from simulator.workload.workload import Workload as Workload

__getattr__, __dir__ = lazy_names(__name__)
