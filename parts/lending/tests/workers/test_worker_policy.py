"""Policies over workers on worked examples: small simulations whose every start and end is known."""

from typing import Any

import pytest

from parts.lending.lyra import Lyra, LyraSettings
from parts.lending.replay.inference_service import InferenceService
from parts.lending.tests.replay.lyra_reference import examples
from simulator.cluster.spec import ClusterSpec
from simulator.engine.simulation import Simulation
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.workers import Workers
from simulator.workload.workload import Workload


def _scenario(example: dict[str, Any]) -> Scenario:
    config = example["config"]
    jobs = []
    for row in sorted(example["jobs"], key=lambda row: (row["submit_s"], row["id"])):
        workers = Workers(
            row["gpus_per_worker"],
            row["workers_min"],
            row["workers_max"] if config.get("elastic", True) else row["workers_min"],
            loanable=bool(row["fungible"]),
            checkpoints=bool(row["checkpoint"]),
        )
        duration_s = row["duration_s"] * workers.least / workers.rate(workers.most)
        jobs.append(
            Job(str(row["id"]), "training", None, workers.gpus, row["submit_s"], duration_s, workers=workers)
        )
    usage = example["inference_usage_per_300s"]
    service = InferenceService(
        config["n_inf"],
        [300.0 * bin_ for bin_ in range(len(usage))],
        usage,
        loaned_workers_per_worker=config["k"],
        repeats=True,
    )
    return Scenario(
        Workload(tuple(jobs), {}), ClusterSpec({"training": config["n_train"]}), companions=(service,)
    )


@pytest.mark.reference
def test_every_job_of_the_worked_simulations_starts_and_ends_as_it_should() -> None:
    simulated = examples("simulation")
    assert len(simulated) == 8
    for example in simulated:
        config = example["config"]
        settings = LyraSettings(
            reclaim="reference",
            loaning=config.get("loan", True),
            scaling=config.get("elastic", True),
            order="submission" if config.get("order") == "fifo" else "shortest",
            headroom=config.get("headroom", 0.02),
            epoch_s=config["epoch"],
        )
        simulation = Simulation(_scenario(example), Lyra(settings))
        simulation.run()
        jobs = {int(view.job.job_id): view for view in simulation.jobs}
        for row in example["result"]:
            view = jobs[row["id"]]
            happened = (view.first_start_time_s, view.end_time_s, view.queuing_delay_s, view.preemptions)
            expected = (row["first_start_s"], row["end_s"], row["queue_s"], row["preemptions"])
            assert happened == pytest.approx(expected, abs=1e-3), (example["name"], row["id"])
