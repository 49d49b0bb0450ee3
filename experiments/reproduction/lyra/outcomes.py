"""What is kept of a replay: queuing and JCT of each job, and how busy which servers were."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.reproduction.lyra.loan_watch import LoanWatch
from experiments.reproduction.lyra.windows import GPUS_PER_SERVER, LyraWindow
from foundation.replaced_files import replace_file
from parts.lending.replay.inference_service import InferenceService
from simulator.results.result import SimulationResult

Floats = NDArray[np.float64]
HOUR_S = 3_600
HOURS_A_DAY = 24
BIN_S = 300.0


@dataclass(frozen=True)
class LyraOutcome:
    """One replay.

    `queuing_s` and `jct_s` by job, in the order of submission; `on_loan`: whether it ever ran on a loaned
    server. By hour of the window: GPUs in use, as a share, of own servers, of loaned ones (NaN while there
    are none) and of all servers, inference's among them. `figures`: see `outcome_of`.
    """

    queuing_s: Floats
    jct_s: Floats
    on_loan: NDArray[np.bool_]
    own_usage: Floats
    loaned_usage: Floats
    usage: Floats
    figures: Mapping[str, float]

    def save(self, path: Path) -> None:
        """Write it in one step."""
        stream = BytesIO()
        np.savez_compressed(
            stream,
            queuing_s=self.queuing_s,
            jct_s=self.jct_s,
            on_loan=self.on_loan,
            own_usage=self.own_usage,
            loaned_usage=self.loaned_usage,
            usage=self.usage,
            figures=np.frombuffer(json.dumps(dict(self.figures)).encode(), dtype=np.uint8),
        )
        replace_file(path, stream.getvalue())

    @classmethod
    def load(cls, path: Path) -> "LyraOutcome":
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as saved:
            arrays = {name: saved[name] for name in saved.files}
        figures = json.loads(arrays.pop("figures").tobytes())
        return cls(**arrays, figures=figures)


def outcome_of(
    result: SimulationResult, watch: LoanWatch, window: LyraWindow, inference: InferenceService
) -> LyraOutcome:
    """Keep a replay's figures.

    `figures`: `preemptions`, `preemption_ratio` (a submission), `scalings`, `collateral` (GPUs vacated on
    servers that stay, a GPU asked back), `flexible_share` (`LoanWatch`), and the usages `training`,
    `overall` and `on_loan` (shares, 0 where nothing is lent) of the time in which jobs are submitted.
    """
    jobs, summary = result.jobs, result.summary
    edges_s: Floats = np.arange(window.days * HOURS_A_DAY + 1, dtype=np.float64) * HOUR_S
    own, loaned, servers = watch.means(edges_s)
    # Servers that inference occupies, sampled in five-minute bins as its load is told.
    bins_s = np.arange(0.0, edges_s[-1], BIN_S)
    needed = np.array([inference.servers_needed(at_s) for at_s in bins_s]).reshape(len(own), -1).mean(axis=1)
    of_all = GPUS_PER_SERVER * (window.training_servers + window.inference_servers)
    on_loan = np.zeros(len(jobs), dtype=bool)
    on_loan[sorted(watch.on_loan)] = True
    with np.errstate(invalid="ignore", divide="ignore"):
        loaned_usage = np.where(servers > 0, loaned / (GPUS_PER_SERVER * servers), np.nan)
    preemptions = float(jobs["preemptions"].sum())
    shares = {
        "training": summary["training_usage_pct"],
        "overall": summary["all_usage_pct"],
        "on_loan": summary["on_loan_usage_pct"],
        "collateral": summary["collateral_damage_pct"],
    }
    return LyraOutcome(
        jobs["queuing_delay_s"].to_numpy(dtype=np.float64),
        jobs["jct_s"].to_numpy(dtype=np.float64),
        on_loan,
        own / (GPUS_PER_SERVER * window.training_servers),
        loaned_usage,
        (own + loaned + GPUS_PER_SERVER * needed) / of_all,
        {
            "preemptions": preemptions,
            "preemption_ratio": preemptions / len(jobs),
            "scalings": float(summary["scaling_operations"]),
            "flexible_share": watch.flexible_share,
            **{name: 0.0 if share is None else share / 100 for name, share in shares.items()},
        },
    )
