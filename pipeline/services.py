"""The services that learn from a cluster's past and act on its present (Helios, SC '21, section 4.1).

In the paper every service plugs into two components: a Resource Orchestrator, which predicts and acts, and a
Model Update Engine, which takes in what happened and trains anew. Here the daemon is the one, monitoring and
retraining are the other. A service is a row of `SERVICES`: what it learns, and the places (MODULE:NAME) that
train it, judge what it has learned and what it does, decide, and act on a live cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

ORCHESTRATOR = "live_scheduler.daemon:Daemon"
UPDATE_ENGINE = (
    "pipeline.monitoring.monitor:monitor_release",  # says when what was learned no longer holds
    "pipeline.training.training_plan:plan_training",  # what is trained then, and what is kept
    "pipeline.training.model_training:train_model",
)


@dataclass(frozen=True)
class LearningService:
    """A service; `models` are kinds of the catalogue, all other fields but `name` and `title` places."""

    name: str
    title: str
    models: tuple[str, ...]
    trained_by: tuple[str, ...]
    learning_judged_by: tuple[str, ...]
    decides_by: str
    deciding_judged_by: str
    acts_by: str

    @property
    def places(self) -> tuple[str, ...]:
        """Every place that the row names."""
        return (
            *self.trained_by,
            *self.learning_judged_by,
            self.decides_by,
            self.deciding_judged_by,
            self.acts_by,
        )


_RUN_TIMES_JUDGED = "lucid_models.evaluation.duration:evaluate_duration"
SERVICES: Mapping[str, LearningService] = {
    service.name: service
    for service in (
        LearningService(
            name="lucid",
            title="Order and packing of jobs (Lucid)",
            models=("packing", "throughput", "duration"),
            trained_by=(
                "lucid_models.training:train_packing",
                "lucid_models.training:train_throughput",
                "lucid_models.training:train_duration",
            ),
            learning_judged_by=(
                "lucid_models.evaluation.packing:evaluate_packing",
                "lucid_models.evaluation.throughput:evaluate_throughput",
                _RUN_TIMES_JUDGED,
            ),
            decides_by="simulator.policies.lucid:Lucid",
            deciding_judged_by="simulator.gate.judge:judge",
            acts_by="live_scheduler.deciding.decision_maker:DecisionMaker",
        ),
        LearningService(
            name="qssf",
            title="Quasi-Shortest-Service-First (Helios)",
            models=("duration",),
            trained_by=(
                "lucid_models.training:train_duration",
                "lucid_models.qssf.estimates:qssf_estimates_s",
            ),
            learning_judged_by=(_RUN_TIMES_JUDGED,),
            decides_by="simulator.policies.qssf:Qssf",
            deciding_judged_by="simulator.gate.judge:judge",
            acts_by="live_scheduler.deciding.decision_maker:DecisionMaker",
        ),
        LearningService(
            name="ces",
            title="Cluster Energy Saving (Helios)",
            models=("node_demand",),
            trained_by=("lucid_models.node_demand.training:train_node_demand",),
            learning_judged_by=("lucid_models.evaluation.node_demand:evaluate_node_demand",),
            decides_by="simulator.node_sleep.control:open_control",
            deciding_judged_by="simulator.node_sleep.choice:choose_settings",
            acts_by="live_scheduler.node_sleep.sleeper:NodeSleeper",
        ),
        LearningService(
            name="loans",
            title="Capacity loaning (Lyra)",
            models=("inference_load",),
            trained_by=("lucid_models.inference_load.training:train_inference_load",),
            learning_judged_by=("lucid_models.evaluation.inference_load:evaluate_inference_load",),
            decides_by="simulator.loaning.orchestrator:servers_to_lend",
            deciding_judged_by="simulator.loaning.gate_limits:loaned_servers",
            acts_by="live_scheduler.loans.lender:NodeLender",
        ),
        LearningService(
            name="waits",
            title="Answers about waits",
            models=("waits",),
            trained_by=("lucid_models.waits.training:train_waits",),
            learning_judged_by=("lucid_models.evaluation.waits:evaluate_waits",),
            decides_by="live_scheduler.waits.speaker:StartSpeaker",
            deciding_judged_by="live_scheduler.waits.start_errors:StartErrors",
            acts_by="live_scheduler.service.expectation:ExpectedTimes",
        ),
    )
}


def learned_kinds() -> tuple[str, ...]:
    """Return the kinds of model that services learn, each once, in the order of services."""
    return tuple(dict.fromkeys(kind for service in SERVICES.values() for kind in service.models))


def resolved(place: str) -> Any:
    """Return what stands at MODULE:NAME; raises ImportError or AttributeError where nothing does."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
