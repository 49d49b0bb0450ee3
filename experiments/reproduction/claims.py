"""The sentences of the paper's evaluation, each with what this trace says of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pandas as pd

from experiments.reproduction import published
from experiments.reproduction.ablations import (
    WITH_SPACE_AWARE,
    WITHOUT_BINDER,
    WITHOUT_ESTIMATOR,
    WITHOUT_SHARING,
    WITHOUT_SPACE_AWARE,
)
from experiments.reproduction.model_updates import estimates_name
from experiments.reproduction.runs import Outcome, ReproductionRun
from experiments.reproduction.sections import Section, name_of
from experiments.reproduction.sensitivity import FREE_PREEMPTION, limit_run, thresholds_run
from experiments.reproduction.sharing import MIXES
from experiments.reproduction.study import CLARITY, LUCID, THRESHOLDS, Study, figure_of
from foundation.markdown import NO_VALUE, number

REACHED, NOT_REACHED, NOT_MEASURED = "yes", "**no**", "not measured"
LATENCY_AT_JOBS = 2_048
PAPER_LIMIT_S = 200.0  # T_prof of the paper's evaluation, with every small job profiled first


@dataclass(frozen=True)
class Evidence:
    """What a study has measured, to look claims up in."""

    study: Study
    outcomes: Mapping[ReproductionRun, Outcome]
    latency: pd.DataFrame  # the tidy table of Figure 10 (a), or an empty one
    policy: str = LUCID  # the policy that the claims are about

    def figure(self, run: ReproductionRun, name: str) -> float | None:
        """A summary figure of a run."""
        return figure_of(self.outcomes.get(run), name)

    def ratio(self, above: ReproductionRun, below: ReproductionRun, name: str) -> float | None:
        """How many times larger a figure of one run is than that of another."""
        return _ratio(self.figure(above, name), self.figure(below, name))

    def of_activity(self, run: ReproductionRun, name: str) -> float | None:
        """A figure of `Activity`."""
        outcome = self.outcomes.get(run)
        return None if outcome is None or outcome.activity is None else float(getattr(outcome.activity, name))


def claims_section(evidence: Evidence) -> Section:
    """Set every claim beside what this trace says of Lucid and, where it is about results, of our policy."""
    own = replace(evidence, policy=CLARITY) if CLARITY in evidence.study.policies else None
    rows, shown = [], []
    for key, claim in published.CLAIMS.items():
        ours = _MEASURES[key](evidence)
        of_own = _MEASURES[key](own) if own is not None and key in _OF_RESULTS else None
        verdict = _verdict(claim, ours)
        rows.append(
            {
                "claim": key,
                "unit": claim.unit,
                "sense": claim.sense,
                "published_low": claim.low,
                "published_high": claim.high,
                "ours": ours,
                "reached": {REACHED: True, NOT_REACHED: False}.get(verdict),
                "clarity": of_own,
            }
        )
        line = {
            "the paper says": claim.statement,
            "where": claim.place + (f", {claim.trace.capitalize()}" if claim.trace else ""),
            "paper": claim.text(),
            "Lucid here": NO_VALUE if ours is None else claim.with_unit(number(ours)),
        }
        if own is not None:
            line["Clarity here"] = NO_VALUE if of_own is None else claim.with_unit(number(of_own))
        shown.append(line | {"reached by Lucid": verdict})
    return Section(
        "claims",
        "The paper's claims on this trace",
        pd.DataFrame(rows),
        pd.DataFrame(shown),
        (
            "Reached: at least the lower end of the paper's range (or at most its bound).",
            *(
                ()
                if own is None
                else ("Clarity is our own policy; the same ratios are given with it for Lucid.",)
            ),
        ),
    )


def _verdict(claim: published.PublishedClaim, ours: float | None) -> str:
    if ours is None:
        return NOT_MEASURED
    reached = ours >= claim.bound if claim.sense == "at least" else ours <= claim.bound
    return REACHED if reached else NOT_REACHED


def standing(evidence: Evidence, policy: str = LUCID) -> list[str]:
    """Say in a sentence a measure which policies this one is ahead of and behind here, and by how much."""
    study = evidence.study
    if policy not in study.policies:
        return []
    said = []
    for name, words in (
        ("mean_jct_s", "Mean JCT"),
        ("mean_queuing_delay_s", "Mean queuing delay"),
        ("p999_queuing_delay_s", "P99.9 queuing delay"),
    ):
        ours = evidence.figure(study.run(policy), name)
        if ours is None:
            continue
        rivals = [
            (rival, theirs)
            for rival in study.policies
            if rival != policy and (theirs := evidence.figure(study.run(rival), name)) is not None
        ]
        behind = [f"{name_of(rival)} ({_times(ours, theirs)})" for rival, theirs in rivals if theirs < ours]
        ahead = [f"{name_of(rival)} ({_times(theirs, ours)})" for rival, theirs in rivals if theirs > ours]
        said.append(
            f"{words}: {name_of(policy)} loses to {', '.join(behind) or 'no other policy'}; it beats "
            f"{', '.join(ahead) or 'none'}."
        )
    return said


def _times(above: float, below: float) -> str:
    """How much larger one figure is than another: percent, or times from twofold on."""
    if not below:
        return "it has none"
    return f"{number(above / below)}×" if above >= 2 * below else f"{number(100 * (above / below - 1), 1)} %"


def _ratio(above: float | None, below: float | None) -> float | None:
    if above is None or below is None:
        return None
    if not below:
        return None if not above else float("inf")
    return above / below


def _more_pct(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or not theirs else 100 * (ours / theirs - 1)


def _against(policy: str, name: str) -> Callable[[Evidence], float | None]:
    def measured(evidence: Evidence) -> float | None:
        return evidence.ratio(evidence.study.run(policy), evidence.study.run(evidence.policy), name)

    return measured


def _activity_gain(name: str) -> Callable[[Evidence], float | None]:
    def measured(evidence: Evidence) -> float | None:
        run = evidence.study.run
        return _more_pct(
            evidence.of_activity(run(evidence.policy), name), evidence.of_activity(run("tiresias"), name)
        )

    return measured


def _without(settings: Mapping[str, object]) -> Callable[[Evidence], float | None]:
    def measured(evidence: Evidence) -> float | None:
        run = evidence.study.run
        return evidence.ratio(run(LUCID, settings), run(LUCID), "mean_queuing_delay_s")

    return measured


def _without_sharing(evidence: Evidence) -> float | None:
    run = evidence.study.run
    return evidence.ratio(run("qssf"), run(LUCID, WITHOUT_SHARING.settings), "mean_queuing_delay_s")


def _space_aware(evidence: Evidence) -> float | None:
    run = evidence.study.run
    return _ratio(
        evidence.of_activity(run(LUCID, WITHOUT_SPACE_AWARE.settings), "profiling_queue_s"),
        evidence.of_activity(run(LUCID, WITH_SPACE_AWARE.settings), "profiling_queue_s"),
    )


def _short_jobs_waiting(evidence: Evidence) -> float | None:
    run = evidence.study.run
    tiresias, ours = (evidence.outcomes.get(run(name)) for name in ("tiresias", evidence.policy))
    if tiresias is None or ours is None or tiresias.failed or ours.failed:
        return None
    return _ratio(tiresias.short_jobs_waiting, ours.short_jobs_waiting)


def _ended_in_profiling(evidence: Evidence) -> float | None:
    run = limit_run(evidence.study, PAPER_LIMIT_S)
    ended, jobs = evidence.figure(run, "ended_in_profiling"), evidence.figure(run, "jobs")
    return None if ended is None or not jobs else 100 * ended / jobs


def _mixes(evidence: Evidence) -> float | None:
    study = evidence.study
    found = [
        evidence.ratio(
            study.run("tiresias", profiles=mix),
            study.run(evidence.policy, profiles=mix),
            "mean_queuing_delay_s",
        )
        for mix in MIXES
    ]
    known = [ratio for ratio in found if ratio is not None]
    return min(known) if len(known) == len(MIXES) else None


def _thresholds(evidence: Evidence) -> float | None:
    found = [evidence.figure(thresholds_run(evidence.study, *pair), "mean_jct_s") for pair in THRESHOLDS]
    known = [jct_s for jct_s in found if jct_s]
    return 100 * (max(known) / min(known) - 1) if len(known) == len(THRESHOLDS) else None


def _preemption_overhead(evidence: Evidence) -> float | None:
    run = evidence.study.run
    return _more_pct(
        evidence.figure(run("tiresias"), "mean_queuing_delay_s"),
        evidence.figure(run("tiresias", FREE_PREEMPTION), "mean_queuing_delay_s"),
    )


def _update(interval: str, against: str) -> Callable[[Evidence], float | None]:
    def measured(evidence: Evidence) -> float | None:
        run = evidence.study.run
        wait = evidence.figure(run(LUCID, estimates=estimates_name(interval)), "mean_queuing_delay_s")
        base = evidence.figure(run(LUCID, estimates=estimates_name(against)), "mean_queuing_delay_s")
        return None if wait is None or not base else 100 * (1 - wait / base)

    return measured


def _latency(evidence: Evidence) -> float | None:
    """P99 of decisions plus the inference for one whole queue; None where that was not timed."""
    table = evidence.latency
    if table.empty:
        return None
    found = table[(table["policy"] == LUCID) & (table["queued_jobs"] == LATENCY_AT_JOBS)]
    if found.empty or pd.isna(found["estimating_ms"].iloc[0]):
        return None
    return float(found["p99_ms"].iloc[0]) + float(found["estimating_ms"].iloc[0])


# Claims about what a policy achieves, which can be asked of any policy.
_OF_RESULTS = frozenset(
    {
        "jct_vs_fifo",
        "jct_vs_tiresias",
        "queue_vs_tiresias",
        "tail_vs_tiresias",
        "gpu_utilisation",
        "gpu_memory",
        "short_jobs_queued",
        "short_jobs_waiting",
        "mixes_vs_tiresias",
    }
)
_MEASURES: Mapping[str, Callable[[Evidence], float | None]] = {
    "jct_vs_fifo": _against("fifo", "mean_jct_s"),
    "jct_vs_tiresias": _against("tiresias", "mean_jct_s"),
    "queue_vs_tiresias": _against("tiresias", "mean_queuing_delay_s"),
    "tail_vs_tiresias": _against("tiresias", "p999_queuing_delay_s"),
    "gpu_utilisation": _activity_gain("gpu_util_pct"),
    "gpu_memory": _activity_gain("gpu_mem_mib"),
    "short_jobs_queued": _against("tiresias", "short_jobs_queued"),
    "short_jobs_waiting": _short_jobs_waiting,
    "decision_latency": _latency,
    "training_time": lambda evidence: evidence.study.beliefs.fit_s / 60 or None,
    "without_binder": _without(WITHOUT_BINDER.settings),
    "without_sharing": _without_sharing,
    "without_estimator": _without(WITHOUT_ESTIMATOR.settings),
    "space_aware": _space_aware,
    "ended_in_profiling": _ended_in_profiling,
    "profiling_queue": lambda evidence: evidence.of_activity(
        limit_run(evidence.study, PAPER_LIMIT_S), "profiling_queue_s"
    ),
    "mixes_vs_tiresias": _mixes,
    "thresholds": _thresholds,
    "preemption_overhead": _preemption_overhead,
    "weekly_update": _update("weekly", "never"),
    "daily_update": _update("daily", "weekly"),
}
