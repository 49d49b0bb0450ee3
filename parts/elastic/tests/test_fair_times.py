"""The fair times of the main engine are those of a pool."""

from dataclasses import replace

import numpy as np

from parts.elastic.allocation import Pool
from parts.elastic.engine import ElasticSimulation
from parts.elastic.rules.elastic_fifo import ElasticFifoRule
from simulator.conformance import sample_workload
from simulator.engine.simulation import Simulation
from simulator.policies.registry import load_policy
from simulator.prediction import fair_times_s
from simulator.scenario.scenario import Scenario
from simulator.workload.workload import Workload


def test_fair_times_are_those_of_the_pool():
    workload, cluster = sample_workload("elastic", 4, jobs=60)
    distinct = tuple(
        replace(
            job, virtual_cluster="a", submit_time_s=job.submit_time_s + 0.01 * i, cancel_time_s=None, order=i
        )
        for i, job in enumerate(workload.jobs)
    )
    workload = Workload(distinct, {})
    pool = ElasticSimulation(workload, Pool(96, whole=True), ElasticFifoRule())
    pool.run()
    expected = {job.job.job_id: job for job in pool.ended}
    simulation = Simulation(Scenario(workload, cluster), load_policy("fifo"))
    simulation.run()
    for view in simulation.jobs:  # the pool's schedule, seen as the main engine's
        view.end_time_s = expected[view.job.job_id].end_time_s
    fair = fair_times_s(simulation.jobs, {"a": 96})
    known = [expected[view.job.job_id].fair_duration_s for view in simulation.jobs]
    assert np.allclose(fair, known, rtol=1e-9, atol=1e-9)
