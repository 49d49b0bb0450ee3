"""What live errors ask for: each rule needs a large loss and an interval that says it is no chance."""

import math
from collections.abc import Iterator

from pipeline.monitoring.errors import DurationHealth, GroupErrors, PackingHealth, SeriesHealth
from pipeline.monitoring.forecast_errors import Change, ErrorSentences, clearly_above, error_findings
from pipeline.monitoring.moved_run_times import LEAST_FACTOR
from pipeline.monitoring.rules import Finding, MonitorSettings, Urgency

_WORDS = {"submitted_gpu_jobs": "jobs a bin", "submitted_gpus": "GPUs a bin"}
_ACCURACY_LOSS = 0.1
# Of the normal distribution: one in fifty is further below.
_CHANCE_DEVIATIONS = 2.05


def duration_findings(health: DurationHealth, settings: MonitorSettings) -> Iterator[Finding]:
    """Error against validation and the naive rival, coverage of P90, order of jobs, virtual clusters."""

    def found(level: Urgency, subject: str, sentence: str, value: float, limit: float) -> Finding:
        return Finding(level, "duration", subject, sentence, value, limit)

    if health.unusable:
        sentence = (
            f"{health.unusable:,} of {health.estimated:,} estimates are not finite or not positive: "
            "consider a rollback."
        )
        yield found(Urgency.RETRAIN, "estimates", sentence, float(health.unusable), 0.0)
    overall = health.overall
    if overall is None:
        return
    expected = health.validation.get("mae_log10")
    if expected is not None and clearly_above(health.against_validation):
        limit = settings.error_factor * expected
        if overall.mae_log10 > limit:
            sentence = (
                f"Estimates are off by {overall.mae_log10:.3f} in log10 of run time; at validation it was "
                f"{expected:.3f}, so {overall.mae_log10 / expected:.2f} times as much."
            )
            yield found(Urgency.RETRAIN, "error", sentence, overall.mae_log10, limit)
    if clearly_above(health.against_naive):
        sentence = (
            f"The naive rival ({health.naive}) does better on the same jobs: {overall.naive_mae_log10:.3f} "
            f"against {overall.mae_log10:.3f} in log10 of run time."
        )
        yield found(Urgency.RETRAIN, "worse than naive", sentence, overall.mae_log10, overall.naive_mae_log10)
    yield from _coverage(overall, health.coverage, settings)
    tau = health.validation.get("kendall_tau")
    if health.against_validation is not None and tau is not None and overall.kendall_tau is not None:
        # Kendall's bound on the variance of tau (Rank Correlation Methods, 1970).
        chance = _CHANCE_DEVIATIONS * math.sqrt(2.0 * max(1.0 - tau**2, 0.0) / overall.jobs)
        limit = tau - settings.tau_loss - chance
        if overall.kendall_tau < limit:
            sentence = (
                f"Jobs are ordered less well: Kendall's tau {overall.kendall_tau:.3f}, at validation "
                f"{tau:.3f}."
            )
            yield found(Urgency.WATCH, "order", sentence, overall.kendall_tau, limit)
    for moved in health.moved:
        sentence = (
            f"Run times in virtual cluster {moved.virtual_cluster} have moved: on {moved.day} their P90 "
            f"had to be {moved.factor:.1f} times that of when the release learned ({moved.jobs:,} jobs)."
        )
        subject = f"run times of virtual cluster {moved.virtual_cluster}"
        yield found(Urgency.WATCH, subject, sentence, moved.factor, LEAST_FACTOR)
    for group in health.virtual_clusters:
        limit = settings.error_factor * group.naive_mae_log10
        if group.mae_log10 > limit and group.jobs >= settings.least_jobs:
            sentence = (
                f"In virtual cluster {group.name} the naive rival does better: {group.naive_mae_log10:.3f} "
                f"against {group.mae_log10:.3f} in log10 of run time ({group.jobs:,} jobs)."
            )
            yield found(Urgency.WATCH, f"virtual cluster {group.name}", sentence, group.mae_log10, limit)


def throughput_findings(series: tuple[SeriesHealth, ...], settings: MonitorSettings) -> Iterator[Finding]:
    """Forecasts that cannot be used, and what their errors ask for."""
    for health in series:
        if health.unusable:
            sentence = f"{health.unusable:,} forecasts of {health.series} are not finite or negative."
            yield Finding(Urgency.RETRAIN, "throughput", health.series, sentence, float(health.unusable), 0.0)
        name, unit = health.series, _WORDS[health.series]
        sentences = ErrorSentences(
            "throughput",
            f"The naive rival forecasts {name} better: {{naive_mae:.2f}} against {{mae:.2f}} {unit}.",
            f"Forecasts of {name} are off by {{mae:.2f}} {unit} ({{skill:.0%}} of the naive rival's error); "
            "at validation by {validation_mae:.2f} ({validation_skill:.0%}).",
            worse_subject=name,
            grown_subject=name,
        )
        yield from error_findings(health, sentences, settings)


def packing_findings(health: PackingHealth, settings: MonitorSettings) -> Iterator[Finding]:
    """New measurements that the tree does not fit."""
    before = health.validation_accuracy
    if health.accuracy is None or before is None:
        return
    chance = _CHANCE_DEVIATIONS * math.sqrt(before * (1.0 - before) / health.configurations)
    limit = before - _ACCURACY_LOSS - chance
    if health.accuracy < limit:
        sentence = (
            f"The packing model labels {health.accuracy:.0%} of {health.configurations} measured "
            f"configurations rightly; leave-one-out at validation: {before:.0%}."
        )
        yield Finding(Urgency.RETRAIN, "packing", "accuracy", sentence, health.accuracy, limit)


def _coverage(overall: GroupErrors, change: Change | None, settings: MonitorSettings) -> Iterator[Finding]:
    """`change` is the coverage less 0.9, with its interval."""
    if change is None or change.low is None or change.high is None:
        return
    covered = overall.coverage_p90
    for outside, limit, word in (
        (0.9 + change.high < settings.coverage_low, settings.coverage_low, "optimistic"),
        (0.9 + change.low > settings.coverage_high, settings.coverage_high, "pessimistic"),
    ):
        if outside:
            sentence = f"Estimates are too {word}: {covered:.0%} of the jobs ended within their P90."
            yield Finding(Urgency.RETRAIN, "duration", "coverage of P90", sentence, covered, limit)
            return
    if not settings.coverage_low <= covered <= settings.coverage_high:
        limit = settings.coverage_low if covered < settings.coverage_low else settings.coverage_high
        sentence = f"{covered:.0%} of the jobs ended within their P90; it may be chance."
        yield Finding(Urgency.WATCH, "duration", "coverage of P90", sentence, covered, limit)
