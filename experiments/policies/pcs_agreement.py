"""Measures agreement with PCS' simulator, job by job, for PCS and all of its rivals.

`python -m experiments.policies.pcs_agreement DATA` prints the tables; DATA is the folder that
LUCID_REFERENCE_DATA names. With `--write docs/simulator_fidelity.md` they go between that page's markers.
`--trace FILE --ends FILE --policy P` compares any other trace under one policy with a reference's jobs.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.ingest import read_jobs_file
from experiments.pages import publish, study_parser
from foundation.errors import BadInputError, LucidError, NotFoundError
from foundation.markdown import markdown_table
from simulator.cluster.spec import ClusterSpec
from simulator.replay import simulate
from simulator.results.prediction_metrics import prediction_error_pct, unfairness
from simulator.scenario.rules import load_rules
from simulator.scenario.scenario import Scenario
from simulator.workload.speed_up_table import read_speed_ups
from simulator.workload.workload import Workload

GPUS = 64
TRACE = "0e4a51"
PUBLISHED_TRACES = (TRACE, "b436b2")  # rows 1 and 2 of Figure 7
TOLERANCE_S = 1.0
COLUMNS = ("app_id", "end_time", "estimated_end_time", "fair_act")
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AgreementContender:
    """A policy, and what the reference and Figure 7 call it."""

    label: str
    policy: str
    reference: str
    figure: str
    configuration: str | None = None

    def __str__(self) -> str:
        return self.label


CONTENDERS = (
    AgreementContender("AFS-L", "afs", "AFS", "AFS"),
    AgreementContender("SRSF", "srsf", "SRSF", "Tiresias"),
    AgreementContender("Themis", "themis", "THEMIS", "Themis"),
    AgreementContender("FIFO", "elastic_fifo", "FIFO", "FIFO"),
    AgreementContender("PCS-JCT", "pcs", "FIG7_jct", "PCS-JCT", "fig7-jct"),
    AgreementContender("PCS-bal", "pcs", "FIG7_bal", "PCS-bal", "fig7-bal"),
)
NORMAL = CONTENDERS[0]  # whose mean completion time is 1


@dataclass(frozen=True)
class Jobs:
    """What became of a trace's jobs, in its order; shape (jobs,) each, NaN where nothing was foretold."""

    end_s: Floats
    jct_s: Floats
    predicted_jct_s: Floats
    fair_s: Floats
    jobs_per_cpu_s: float = float("nan")

    @property
    def mean_jct_s(self) -> float:
        """Mean completion time."""
        return float(self.jct_s.mean())

    @property
    def mean_unfairness(self) -> float:
        """Mean of the time beyond the fair time, as a share of that."""
        return float(unfairness(self.jct_s, self.fair_s).mean())

    @property
    def foretold(self) -> NDArray[np.bool_]:
        """Whether a job's end was predicted."""
        return np.isfinite(self.predicted_jct_s)

    def errors_pct(self, jobs: NDArray[np.bool_] | None = None) -> tuple[float, float]:
        """Mean and P99 (by linear interpolation) of Pred_err of these jobs; NaN without predictions."""
        errors = prediction_error_pct(self.predicted_jct_s, self.jct_s)
        errors = errors[self.foretold if jobs is None else self.foretold & jobs]
        if not len(errors):
            return float("nan"), float("nan")
        return float(errors.mean()), float(np.percentile(errors, 99))


@dataclass(frozen=True)
class PcsAgreement:
    """Our run beside the reference's."""

    ours: Jobs
    reference: Jobs

    @property
    def furthest_end_s(self) -> float:
        """The largest difference of a job's end."""
        return float(np.abs(self.ours.end_s - self.reference.end_s).max())

    @property
    def within_tolerance(self) -> float:
        """The share of jobs whose end differs by at most a second."""
        return float((np.abs(self.ours.end_s - self.reference.end_s) <= TOLERANCE_S).mean())

    @property
    def furthest_prediction_s(self) -> float:
        """The largest difference of a job's predicted end, of those that both foretold; NaN without any."""
        differences = np.abs(self.ours.predicted_jct_s - self.reference.predicted_jct_s)
        return float(np.nanmax(differences)) if np.isfinite(differences).any() else float("nan")


def load_trace(path: Path, speed_ups: Path | None = None) -> Workload:
    """Read a trace of PCS (pcs-csv); `speed_ups` None: the curves that come with the simulator."""
    frame, _ = read_jobs_file(str(path), "pcs-csv")
    curves = None if speed_ups is None else read_speed_ups(speed_ups)
    return Workload.from_jobs(frame, speed_ups=curves, origin=pd.Timestamp(0, tz="UTC").to_pydatetime())


@cache
def trace(name: str, data: Path) -> Workload:
    """Load one of the traces in DATA/data/pcs, with the reference's speed-up curves."""
    return load_trace(
        data / "data" / "pcs" / f"trace_{name}.csv.gz", data / "reference" / "pcs" / "model_speedups.csv"
    )


def replay(
    workload: Workload,
    policy: str,
    configuration: str | None = None,
    *,
    predict: bool = True,
    gpus: int = GPUS,
) -> Jobs:
    """Replay a trace under the reference's rules."""
    cluster = ClusterSpec(dict.fromkeys(sorted({job.virtual_cluster for job in workload.jobs}), 1), gpus)
    settings = {} if configuration is None else {"configuration": configuration}
    result = simulate(
        Scenario(workload, cluster, rules=load_rules("pcs-artifact")),
        policy,
        settings=settings,
        predict=predict,
    )
    jobs = result.jobs
    submit_s = jobs["submit_time_s"].to_numpy(dtype=np.float64)
    end_s = jobs["end_time_s"].to_numpy(dtype=np.float64)
    foretold = (
        jobs["predicted_end_time_s"].to_numpy(dtype=np.float64) if predict else np.full(len(jobs), np.nan)
    )
    return Jobs(
        end_s,
        end_s - submit_s,
        foretold - submit_s,
        jobs["fair_time_s"].to_numpy(dtype=np.float64),
        result.summary["jobs_per_cpu_s"],
    )


def read_reference(path: Path, workload: Workload) -> Jobs:
    """Read what became of a trace's jobs in the reference (a CSV with `COLUMNS` and submit_time).

    Raises BadInputError where it is not that trace.
    """
    if not path.exists():
        raise NotFoundError(f"There is no {path}.", remedy="Name the folder of the reference data.")
    frame = pd.read_csv(path)
    missing = [name for name in COLUMNS if name not in frame]
    if missing:
        raise BadInputError(f"{path} has no column {missing[0]}.", remedy=f"It needs {', '.join(COLUMNS)}.")
    frame = frame.sort_values("app_id", kind="stable")
    if frame["app_id"].astype(str).tolist() != [job.job_id for job in workload.jobs]:
        raise BadInputError(f"{path} does not hold the {len(workload)} jobs of the trace.")
    submit_s = np.array([job.submit_time_s for job in workload.jobs])
    end_s = frame["end_time"].to_numpy(dtype=np.float64)
    foretold = frame["estimated_end_time"].to_numpy(dtype=np.float64)
    foretold = np.where(foretold < 0, np.nan, foretold)
    return Jobs(end_s, end_s - submit_s, foretold - submit_s, frame["fair_act"].to_numpy(dtype=np.float64))


@cache
def compare(contender: AgreementContender, data: Path, *, predict: bool = True) -> PcsAgreement:
    """Replay the trace whose every job is known, and compare."""
    workload = trace(TRACE, data)
    known = read_reference(
        data / "reference" / "pcs" / f"trace_{TRACE}_{contender.reference}.csv.gz", workload
    )
    return PcsAgreement(replay(workload, contender.policy, contender.configuration, predict=predict), known)


def agreement_table(data: Path) -> str:
    """Return the Markdown table of the trace whose every job is known."""
    normal = compare(NORMAL, data)
    rows = []
    for contender in CONTENDERS:
        found = compare(contender, data)
        sides = ((found.ours, normal.ours), (found.reference, normal.reference))
        errors = [side.errors_pct(found.reference.foretold) for side, _ in sides]
        rows.append(
            (
                contender.label,
                _both(f"{side.mean_jct_s:.1f}" for side, _ in sides),
                _both(f"{side.mean_jct_s / one.mean_jct_s:.3f}" for side, one in sides),
                _both(_number(mean) for mean, _ in errors),
                _both(_number(p99) for _, p99 in errors),
                _both(f"{side.mean_unfairness:.4f}" for side, _ in sides),
                f"{found.furthest_end_s:.6f}",
                f"{100 * found.within_tolerance:.2f} %",
                f"{found.reference.foretold.sum():,}",
                _number(found.furthest_prediction_s, 6),
                f"{found.ours.jobs_per_cpu_s:,.0f}",
            )
        )
    return markdown_table(
        (
            "policy",
            "mean JCT s, ours / reference",
            "normalised",
            "mean Pred_err %",
            "P99 Pred_err %",
            "mean unfairness",
            "furthest end s",
            "ends within 1 s",
            "foretold by the reference",
            "furthest prediction s",
            "jobs per CPU s",
        ),
        rows,
        align_numbers=False,
    )


def figure_table(data: Path, names: Sequence[str] = PUBLISHED_TRACES) -> str:
    """Return the Markdown table of whole traces beside Figure 7, as published.

    Themis predicts nothing there: that takes long. PCS' configurations are known for
    the first trace only.
    """
    folder = data / "data" / "pcs"
    published = {
        kind: pd.read_csv(folder / f"fig7_{kind}.csv").set_index("workload")
        for kind in ("avg_jct", "avg_error", "p99_error")
    }
    rows = []
    for number, name in enumerate(names, start=1):
        workload = trace(name, data)
        normal_jct_s = None
        for contender in CONTENDERS[: 4 if number > 1 else None]:
            predict = contender.policy != "themis"
            ours = replay(workload, contender.policy, contender.configuration, predict=predict)
            normal_jct_s = normal_jct_s or ours.mean_jct_s
            mean, p99 = ours.errors_pct()
            figure = {kind: float(table[contender.figure][number]) for kind, table in published.items()}
            rows.append(
                (
                    name,
                    f"{len(workload):,}",
                    contender.label,
                    f"{ours.mean_jct_s / normal_jct_s:.3f} / {figure['avg_jct']:.3f}",
                    f"{_number(mean)} / {figure['avg_error']:.3f}",
                    f"{_number(p99)} / {figure['p99_error']:.3f}",
                    f"{ours.jobs_per_cpu_s:,.0f}",
                )
            )
    return markdown_table(
        (
            "trace",
            "jobs",
            "policy",
            "normalised JCT, ours / published",
            "mean Pred_err %",
            "P99 Pred_err %",
            "jobs per CPU s",
        ),
        rows,
        align_numbers=False,
    )


def _both(values: Iterable[str]) -> str:
    return " / ".join(values)


def _number(value: float, digits: int = 3) -> str:
    return "none" if np.isnan(value) else f"{value:.{digits}f}"


def report(found: PcsAgreement) -> str:
    """Say in words how far two runs agree."""
    lines = [f"jobs: {len(found.ours.end_s)}"]
    for label, side in (("ours", found.ours), ("reference", found.reference)):
        mean, p99 = side.errors_pct(found.reference.foretold)
        lines.append(
            f"{label}: mean JCT {side.mean_jct_s:.1f} s, Pred_err {_number(mean)} % on average and "
            f"{_number(p99)} % at P99, mean unfairness {side.mean_unfairness:.4f}"
        )
    lines.append(
        f"ends: {100 * found.within_tolerance:.2f} % within {TOLERANCE_S:.0f} s, "
        f"the furthest {found.furthest_end_s:.6f} s"
    )
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Print the tables, write them into a page, or compare one trace; return the exit code."""
    parser = study_parser("experiments.policies.pcs_agreement", __doc__)
    parser.add_argument("--published", action="store_true", help="the whole traces of Figure 7 too (minutes)")
    one = parser.add_argument_group("one trace")
    one.add_argument("--trace", type=Path, help="its jobs, as pcs-csv")
    one.add_argument("--ends", type=Path, help="what became of them in the reference")
    one.add_argument("--policy", default="pcs")
    one.add_argument("--configuration", help="of PCS: a published one, or a JSON file")
    one.add_argument("--gpus", type=int, default=GPUS)
    chosen = parser.parse_args(arguments)
    if (chosen.trace is None) != (chosen.ends is None):
        parser.error("one trace needs --trace and --ends")
    if chosen.trace is not None:
        workload = load_trace(chosen.trace)
        known = read_reference(chosen.ends, workload)
        foretold = bool(np.isfinite(known.predicted_jct_s).any())
        ours = replay(workload, chosen.policy, chosen.configuration, predict=foretold, gpus=chosen.gpus)
        print(report(PcsAgreement(ours, known)))
        return 0
    if chosen.data is None:
        parser.error("name the reference data, or set LUCID_REFERENCE_DATA")
    data = Path(chosen.data)
    tables = {"pcs agreement": agreement_table(data)}
    if chosen.published:
        tables["pcs published"] = figure_table(data)
    publish(tables, chosen.write)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except LucidError as error:
        sys.exit(f"Error: {error}")
