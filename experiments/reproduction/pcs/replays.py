"""Replays of a trace on one pool of GPUs, in fractions, with each job's end foretold at its submission."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from cluster_logs.ingest import read_jobs_file
from experiments.artifact_rules.pcs_rules import PCS_ARTIFACT
from experiments.reproduction.pcs import published
from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from parts.elastic.active_job import ActiveJob
from parts.elastic.allocation import Pool
from parts.elastic.configurations import configuration_to_json
from parts.elastic.elastic_policy import ElasticPolicy
from parts.elastic.engine import ElasticSimulation
from parts.elastic.pareto.objectives import metric_values
from parts.elastic.pcs import Pcs, PcsSettings
from parts.elastic.rules.wfq import WfqConfig
from simulator.policies.registry import load_policy
from simulator.results.metrics import mean, percentile
from simulator.workload.job import Job
from simulator.workload.workload import Workload

# Raise it when the same trace and policy give other figures.
REPLAY_VERSION = 1
CURVE_PCT = tuple(range(101))  # percentiles that a distribution is drawn with
SHOWN_PCT = (50.0, 90.0, 95.0, 99.0)
NAMES: Mapping[str, str] = {
    "afs": "AFS-L",
    "srsf": "Tiresias (SRSF)",
    "themis": "Themis",
    "elastic_fifo": "FIFO",
    "pcs-jct": "PCS-JCT",
    "pcs-bal": "PCS-bal",
    "pcs-pred": "PCS-pred",
}


@dataclass(frozen=True)
class PcsTrace:
    """A trace of elastic jobs and the pool that it is replayed on; `like` names the published one it is."""

    name: str
    file: str
    sha256: str
    workload: Workload
    gpus: int
    like: str | None

    @property
    def jobs(self) -> Sequence[Job]:
        """The jobs in the order of submission."""
        return self.workload.jobs


@dataclass(frozen=True)
class PcsVariant:
    """A policy under the name of Figure 7; `config` is PCS' configuration, `source` where it comes from."""

    key: str
    policy: str
    config: WfqConfig | None = None
    source: str = ""

    def settings(self) -> Mapping[str, Any]:
        """Return the settings that the artifact's rules give the policy, its faults among them."""
        return PCS_ARTIFACT.policy_settings.get(self.policy, {})

    def make(self) -> ElasticPolicy:
        """Return the policy."""
        if self.config is not None:
            return Pcs(
                PcsSettings(
                    thresholds_s=self.config.thresholds_s,
                    weights=self.config.weights,
                    efficiency_min=self.config.efficiency_min,
                    efficiency_step=self.config.efficiency_step,
                )
            )
        made = load_policy(self.policy, rules=PCS_ARTIFACT)
        if not isinstance(made, ElasticPolicy):
            raise BadInputError(f"Policy {self.policy!r} does not resize jobs.")
        return made


RIVALS = tuple(PcsVariant(name, name) for name in ("afs", "srsf", "themis", "elastic_fifo"))


def read_trace(path: Path, source_format: str, gpus: int) -> PcsTrace:
    """Read a log of elastic jobs."""
    frame, _ = read_jobs_file(str(path), source_format)
    name = path.name.split(".")[0].removeprefix("trace_")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return PcsTrace(name, path.name, digest, Workload.from_jobs(frame), gpus, published.trace_of(path.name))


def replay(
    trace: PcsTrace,
    variant: PcsVariant,
    *,
    foretold_max: int,
    folder: Path,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Replay a trace, or take what an earlier replay of it found, from `folder`.

    Themis, whose leases end all the time, predicts every n-th job only, so that at most `foretold_max` are.
    Returns means, percentiles (`jct_s`, `error_pct`, `unfairness`: each `mean`, `p50`, `p90`, `p95`, `p99`
    and `curve`), `jobs`, `foretold` and `cpu_s`.
    """
    every = -(-len(trace.workload) // foretold_max) if variant.policy == "themis" else 1
    asked = {
        "version": REPLAY_VERSION,
        "trace": trace.sha256,
        "gpus": trace.gpus,
        "policy": variant.policy,
        "configuration": configuration_to_json(variant.config) if variant.config else None,
        "every": every,
        **({"settings": dict(variant.settings())} if variant.settings() else {}),
    }
    digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
    path = folder / f"{trace.name}-{variant.key}-{digest[:16]}.json"
    if path.is_file():
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found

    def each_nth(simulation: ElasticSimulation, job: ActiveJob) -> float:
        return nan if job.index % every else simulation.predict_end_s(job)

    simulation = ElasticSimulation(
        trace.workload,
        Pool(trace.gpus),
        variant.make().rule,
        predict=each_nth if every > 1 else True,
        progress=progress,
        name=f"{NAMES[variant.key]} on {trace.name}",
    )
    simulation.run()
    found = {**summarised(simulation.ended), "cpu_s": simulation.cpu_s}
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found) + "\n", encoding="utf-8")
    return found


def summarised(ended: Sequence[ActiveJob]) -> dict[str, Any]:
    """Return the figures of jobs that have ended."""
    values = metric_values(ended)
    return {
        "jobs": len(ended),
        "foretold": len(values["Pred_err"]),
        "jct_s": _spread(values["JCT"]),
        "error_pct": _spread(values["Pred_err"]),
        "unfairness": {
            **_spread(values["unfairness"]),
            "unfair_pct": 100 * mean((values["unfairness"] > 0).astype(np.float64)),
        },
    }


def _spread(values: "np.ndarray[Any, np.dtype[np.float64]]") -> dict[str, Any]:
    return {
        "mean": mean(values),
        **{f"p{percent:g}": percentile(values, percent) for percent in SHOWN_PCT},
        "curve": [percentile(values, percent) for percent in CURVE_PCT],
    }
