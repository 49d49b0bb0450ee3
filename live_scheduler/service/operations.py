"""What the service does, whichever way it is asked: one function an operation, on messages of the schema."""

import time
from collections.abc import Callable

from foundation.errors import LucidError
from live_scheduler.service import answers, live_messages, schema
from live_scheduler.service.job_account import explanation_of, first_sight_in_words
from live_scheduler.service.source import LiveSource


class Operations:
    """Answers from a live scheduler; safe to use from several threads. Errors are those of its methods."""

    def __init__(self, source: LiveSource, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives Unix time; ages are told by it."""
        self.source, self._clock = source, clock

    def status(self, _: schema.StatusQuery | None = None) -> schema.Status:
        """Return how the live scheduler is."""
        source = self.source
        return answers.status_of(
            source.view,
            self._clock(),
            source.heartbeat_age_s(),
            source.regret_report(),
            source.judged_predictions(),
        )

    def queue(self, query: schema.QueueQuery) -> schema.QueueAnswer:
        """Return the queues in the order of the last decision."""
        return answers.queue_of(self.source.view, query.pool)

    def explain(self, query: schema.JobQuery) -> schema.Explanation:
        """Say why a job stands where it stands."""
        view = self.source.view
        job = answers.find_job(answers.cluster_of(view), query.job_id)
        estimate: tuple[float, str] | None = None
        more: list[str] = []
        try:
            estimate = self.source.estimate_reason(job)
        except LucidError as error:  # the place can be told all the same
            more.append(f"The estimate's account is not to be had now: {error}")
        seen = self.source.first_sight(job.job_id)
        if seen is not None and seen.submit_time_s == job.submit_time_s:
            more.append(first_sight_in_words(seen))
        answer = explanation_of(view, query.job_id, estimate)
        return answer.model_copy(update={"sentences": (*answer.sentences, *more)})

    def when(self, query: schema.JobQuery) -> schema.Expectation:
        """Return when a job is expected to start and to end."""
        cluster = answers.cluster_of(self.source.view)
        return self.source.expect(answers.find_job(cluster, query.job_id).job_id)

    def trouble(self) -> str | None:
        """Return what is wrong at present; None: all is well."""
        return self.source.trouble()

    def decide(self, state: schema.ClusterState) -> schema.Decision:
        """Order a pushed cluster by the present release, and remember nothing."""
        return live_messages.decision_message(self.source.decide(live_messages.live_cluster(state)))

    def schedule(self, state: schema.ClusterState) -> schema.Decision:
        """Take a pushed cluster in, and decide: the control path."""
        return live_messages.decision_message(self.source.schedule(live_messages.live_cluster(state)))

    def plan_loans(self, query: schema.LoanQuery) -> schema.LoanAnswer:
        """Say which servers to lend and which to take back, and remember nothing."""
        return self.source.plan_loans(query)

    def report_ends(self, ended: schema.EndedJobs) -> schema.EndsTaken:
        """Learn from jobs that ended."""
        new = self.source.report_ends(live_messages.live_ends(ended.jobs))
        return schema.EndsTaken(new=new, known=len(ended.jobs) - new)
