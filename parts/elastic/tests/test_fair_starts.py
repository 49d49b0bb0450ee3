"""PCS where nobody is stopped or resized: kept from decision to decision, it starts whom the rule would."""

from hypothesis import given, settings
from hypothesis import strategies as st

from parts.elastic.elastic_policy import ElasticPolicy
from parts.elastic.pcs import Pcs, PcsSettings
from simulator.cluster.spec import ClusterSpec
from simulator.engine.simulation import Simulation
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.workload import Workload

SETTINGS = PcsSettings(
    sizes="estimated",
    resizes=False,
    thresholds_s=(30.0, 120.0, float("inf")),
    weights=(0.5, 0.3, 0.2),
    efficiency_min=0.5,
    efficiency_step=0.5,
)


class AskedAnew(Pcs):
    """Asks the rule about all jobs at each decision."""

    decide = ElasticPolicy.decide
    history = ElasticPolicy.history
    resume = ElasticPolicy.resume


jobs = st.lists(
    st.tuples(
        st.sampled_from(["vc1", "vc1", "vc2"]),
        st.sampled_from([1, 1, 2, 3, 4, 6, 8]),
        st.integers(0, 60),
        st.integers(1, 80),
        st.integers(1, 80),
        st.sampled_from([None, None, None, 10.0, 40.0]),
    ),
    min_size=1,
    max_size=25,
)


def played(policy, rows, cut_s=None):
    rows = sorted(rows, key=lambda row: row[2])
    made = [
        Job(
            str(number),
            vc,
            None,
            min(gpus, 4) if vc == "vc2" else gpus,
            float(submit),
            float(duration),
            float(estimate),
            number,
            cancel_time_s=None if cancelled is None else submit + cancelled,
            withdrawn=cancelled is not None,
        )
        for number, (vc, gpus, submit, duration, estimate, cancelled) in enumerate(rows)
    ]
    cluster = ClusterSpec({"vc1": 2, "vc2": 1}, 4)
    simulation = Simulation(Scenario(Workload(tuple(made), {}), cluster), policy(SETTINGS))
    if cut_s is not None:
        simulation.run(cut_s)
        rest = [job for job in made if job.submit_time_s > cut_s]
        workload = Workload(tuple(rest), {})
        initial = simulation.state()
        simulation = Simulation(Scenario(workload, simulation.cluster, initial=initial), policy(SETTINGS))
    simulation.run()
    return {view.job.job_id: (view.first_start_time_s, view.end_time_s) for view in simulation.jobs}


@given(rows=jobs)
@settings(max_examples=80, deadline=None)
def test_it_starts_whom_the_rule_would_and_when(rows):
    assert played(Pcs, rows) == played(AskedAnew, rows)


@given(rows=jobs, cut_s=st.integers(0, 90))
@settings(max_examples=30, deadline=None)
def test_a_simulation_that_goes_on_from_a_state_keeps_the_classes(rows, cut_s):
    whole, rest = played(Pcs, rows), played(Pcs, rows, cut_s)
    assert {job: whole[job] for job in rest} == rest
