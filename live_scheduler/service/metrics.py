"""Prometheus metrics of the live scheduler: counted pass by pass, gauges read when they are asked for."""

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from threading import Lock

from prometheus_client import CollectorRegistry, Counter, Histogram, Summary, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from live_scheduler.capability import capabilities
from live_scheduler.live_view import LiveView
from live_scheduler.service import answers, schema
from live_scheduler.service.operations import Operations

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LATENCIES_S = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
_ERRORS = (1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
# Bounds the memory for jobs of which no end is ever reported.
_MOST_REMEMBERED = 500_000


class ServiceMetrics:
    """What Prometheus reads. A watcher of the daemon: `passed` counts a pass."""

    def __init__(self, operations: Operations) -> None:
        self.registry = CollectorRegistry()
        self._lock = Lock()
        self._estimates: dict[str, float] = {}  # of waiting jobs: until their end is known

        def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(f"lucid_live_{name}", text, labels, registry=self.registry)

        self._passes = counter("passes", "Passes of the daemon.")
        self._problems = counter("problems", "Passes in which something stood in the way.")
        self._decisions = counter("decisions", "Decisions that ranked the queue.")
        self._asked = counter(
            "changes_asked",
            "Changes asked of the cluster (below mode control: that it would have asked for).",
            ("change",),
        )
        self._refused = counter("changes_refused", "Changes that the cluster refused.", ("change",))
        self._deferred = counter("changes_deferred", "Changes that a rate limit put off.")
        self._latency = Histogram(
            "lucid_live_decision_seconds",
            "What a decision took, features and inference included.",
            buckets=_LATENCIES_S,
            registry=self.registry,
        )
        self._parts = Summary(
            "lucid_live_pass_seconds", "What a pass took, by part.", ("part",), registry=self.registry
        )
        self._error = Histogram(
            "lucid_live_estimate_error_ratio",
            "A job's run time and its last estimate while it waited: the larger over the smaller.",
            buckets=_ERRORS,
            registry=self.registry,
        )
        self._log_error = Summary(
            "lucid_live_estimate_log10_error",
            "log10(run time / estimate) of ended jobs; above 0: underestimated.",
            registry=self.registry,
        )
        self.registry.register(_Gauges(operations))

    def passed(self, view: LiveView) -> None:
        """Count a pass."""
        with self._lock:
            self._passes.inc()
            if answers.problem_in(view):
                self._problems.inc()
            for change in view.asked:
                self._asked.labels(type(change).__name__).inc()
            for refusal in view.refused:
                self._refused.labels(type(refusal.change).__name__).inc()
            self._deferred.inc(view.deferred)
            for part, seconds in view.seconds.items():
                self._parts.labels(part).observe(seconds)
            if view.decision is not None and view.decision.problem is None:
                self._decisions.inc()
                self._latency.observe(view.decision.latency_s)
            self._learn(view)

    def render(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def _learn(self, view: LiveView) -> None:
        """Remember the estimates of jobs that wait, and compare them with what became of those that ended."""
        for end in view.ended:
            estimated_s = self._estimates.pop(end.job.job_id, None)
            if estimated_s and end.duration_s:
                error = math.log10(end.duration_s / estimated_s)
                self._error.observe(10 ** abs(error))
                self._log_error.observe(error)
        self._estimates.update(answers.estimates_of(view.decision))
        while len(self._estimates) > _MOST_REMEMBERED:
            del self._estimates[next(iter(self._estimates))]


class _Gauges(Collector):
    """What is true now."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def describe(self) -> Iterator[Metric]:
        """Name nothing ahead of time: without a pass there are none."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges of the last pass."""
        status = self._operations.status()
        release = status.release
        yield from gauges(
            (
                ("start_time_seconds", "When the daemon started (Unix time).", status.started_s),
                ("pass_age_seconds", "Time since the last pass.", status.pass_age_s),
                (
                    "in_charge",
                    "1 when Lucid orders the queue, 0 when the cluster's own order counts.",
                    status.in_charge,
                ),
                ("heartbeat_age_seconds", "Time since the last heartbeat.", status.heartbeat_age_s),
                (
                    "problem",
                    "1 when something stood in the way of the last pass.",
                    status.problem is not None,
                ),
                ("release_version", "The release in use; 0: none.", release.version or 0),
                (
                    "release_contact_age_seconds",
                    "Time since the release's server last answered.",
                    release.contact_age_s,
                ),
                (
                    "release_problem",
                    "1 when the release's alias cannot be followed.",
                    release.problem is not None,
                ),
                (
                    "release_stale",
                    "1 when the release's server was away for too many polls, or its publication expired.",
                    release.mode == "stale",
                ),
                (
                    "release_unsigned",
                    "1 when unsigned releases are believed.",
                    release.trust != "signed",
                ),
                (
                    "release_expires_time_seconds",
                    "When the publication of the release in use expires (Unix time).",
                    None if release.expires is None else datetime.fromisoformat(release.expires).timestamp(),
                ),
                ("ranked_jobs", "Waiting jobs that the last decision ranked.", status.ranked_jobs),
                ("left_alone_jobs", "Waiting jobs that it left alone.", status.left_alone_jobs),
                (
                    "set_by_hand_jobs",
                    "Jobs of which someone set something after Lucid had: it stands.",
                    status.set_by_hand_jobs,
                ),
                ("hands_off_jobs", "Jobs that the settings leave alone.", status.hands_off_jobs),
                ("starts", "Jobs that started in the window of the last look back.", status.starts),
                (
                    "agreed_starts",
                    "Those that the policy would have started by then as well.",
                    status.agreed_starts,
                ),
            )
        )
        info = GaugeMetricFamily(
            "lucid_live_info",
            "The daemon's mode and policy, and how it comes by its release.",
            labels=("cluster", "mode", "policy", "alias", "release_mode"),
        )
        info.add_metric((status.cluster, status.mode, status.policy, release.alias, release.mode), 1.0)
        yield info
        if status.hindsight is not None:
            yield from _hindsight(status.hindsight)
        yield from _predictions(status.predictions)
        for name, part in capabilities().items():
            if (said := status.of_part(name)) is not None:
                yield from part.metrics(said)
        yield from _partitions(status.partitions)


def _partitions(partitions: Sequence[schema.PartitionStatus]) -> Iterator[Metric]:
    for name, text in (
        ("waiting_jobs", "Jobs that wait (the tasks of arrays one by one)."),
        ("waiting_gpus", "GPUs that waiting jobs ask for."),
        ("running_jobs", "Jobs that run."),
        ("gpus", "GPUs of the partition."),
        ("gpus_used", "GPUs of it that are in use."),
        ("gpus_offered", "GPUs on nodes of it that start jobs."),
    ):
        family = GaugeMetricFamily(f"lucid_live_{name}", text, labels=("partition",))
        for partition in partitions:
            family.add_metric((partition.partition,), float(getattr(partition, name)))
        yield family


def _predictions(predictions: Sequence[schema.PredictionErrors]) -> Iterator[Metric]:
    """How well the ends that were predicted at submission held; all virtual clusters together: "all"."""
    labels = ("policy", "release_version", "virtual_cluster")
    error = GaugeMetricFamily(
        "lucid_live_prediction_error_pct",
        "Error of the ends that were told at submission, of jobs that ended lately, in % of the told time.",
        labels=(*labels, "statistic"),
    )
    ended = GaugeMetricFamily(
        "lucid_live_prediction_coverage_ratio",
        "Share of those jobs that had ended by the told moment, and by that of nine plays in ten.",
        labels=(*labels, "by"),
    )
    jobs = GaugeMetricFamily(
        "lucid_live_predicted_jobs",
        "Jobs that ended lately and had been told when they would.",
        labels=labels,
    )
    for each in predictions:
        place = (each.policy, str(each.release_version or 0), each.virtual_cluster or "all")
        error.add_metric((*place, "mean"), each.mean_error_pct)
        error.add_metric((*place, "median"), each.median_error_pct)
        error.add_metric((*place, "p99"), each.p99_error_pct)
        ended.add_metric((*place, "told"), each.by_told)
        ended.add_metric((*place, "p90"), each.by_p90)
        jobs.add_metric(place, float(each.jobs))
    yield from (error, ended, jobs)


def _hindsight(hindsight: schema.Hindsight) -> Iterator[Metric]:
    regret = GaugeMetricFamily(
        "lucid_live_regret_seconds",
        "Mean JCT of the live policy less another's over the last look back, simulated; below 0: it won.",
        labels=("against",),
    )
    regret.add_metric(("fifo_backfill",), hindsight.regret_against_backfill_s)
    regret.add_metric(("true_durations",), hindsight.regret_against_true_durations_s)
    yield regret
    mean = GaugeMetricFamily(
        "lucid_live_mean_jct_seconds", "Mean JCT of the jobs of the last look back.", labels=("of",)
    )
    for name, value in (
        ("measured", hindsight.measured_jct_s),
        ("live_policy", hindsight.live_jct_s),
        ("fifo_backfill", hindsight.backfill_jct_s),
        ("true_durations", hindsight.true_durations_jct_s),
    ):
        mean.add_metric((name,), value)
    yield mean
    yield from gauges(
        (
            ("hindsight_jobs", "Jobs of the last look back.", hindsight.jobs),
            ("hindsight_end_time_seconds", "Until when it looked back (Unix time).", hindsight.end_s),
        )
    )


def gauges(rows: Iterable[tuple[str, str, float | None]]) -> Iterator[Metric]:
    """Yield a gauge for each name, text and value; none where the value is not known."""
    for name, text, value in rows:
        if value is not None:
            yield GaugeMetricFamily(f"lucid_live_{name}", text, value=float(value))


def counters(rows: Iterable[tuple[str, str, int]]) -> Iterator[Metric]:
    """Yield a counter for each name, text and count."""
    for name, text, count in rows:
        yield CounterMetricFamily(f"lucid_live_{name}", text, value=float(count))
