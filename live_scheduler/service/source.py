"""What the service needs of whoever decides: the daemon, behind a protocol that tests can implement too."""

from collections.abc import Sequence
from typing import Protocol

from live_scheduler.cluster_state import ClusterState, EndedJob, LiveJob
from live_scheduler.deciding.decision import Decision
from live_scheduler.forecast.prediction_quality import JudgedPrediction
from live_scheduler.hindsight.decision_log import FirstSight
from live_scheduler.hindsight.regret_job import RegretReport
from live_scheduler.live_view import LiveView
from live_scheduler.service.schema import Expectation, LoanAnswer, LoanQuery


class LiveSource(Protocol):
    """A live scheduler that can be asked, from any thread, at any time.

    Reading `view` never waits. The methods need the models, which a pass may be using: they wait for it no
    longer than a few seconds and raise ServiceUnavailableError then, or before there is anything to answer
    from. Nothing here may delay or break a pass.
    """

    @property
    def view(self) -> LiveView:
        """What the last pass left."""
        ...

    def heartbeat_age_s(self) -> float | None:
        """Return how long ago the daemon last said that it is well (s); None: it gives no heartbeat."""
        ...

    def trouble(self) -> str | None:
        """Return what is wrong at present; None: all is well."""
        ...

    def first_sight(self, job_id: str) -> FirstSight | None:
        """Return what was believed of a job when it was first ranked; None: it never was."""
        ...

    def regret_report(self) -> RegretReport | None:
        """Return the last regret report; None: there was none yet."""
        ...

    def judged_predictions(self) -> Sequence[JudgedPrediction]:
        """Return the jobs that ended lately and had been told when they would; without predictions none."""
        ...

    def estimate_reason(self, job: LiveJob) -> tuple[float, str] | None:
        """Return the present estimate of a job's run time (s) with its account in words; None: no release."""
        ...

    def expect(self, job_id: str) -> Expectation:
        """Return when a job is expected to start and end; raises NotFoundError."""
        ...

    def decide(self, cluster: ClusterState) -> Decision:
        """Order a cluster by the present release, and remember nothing."""
        ...

    def plan_loans(self, query: LoanQuery) -> LoanAnswer:
        """Say which servers to lend and which to take back, by the present release's rules, if it has any."""
        ...

    def schedule(self, cluster: ClusterState) -> Decision:
        """Take the cluster in as it is now, and decide; raises NotServedHereError where a cluster is read."""
        ...

    def report_ends(self, ended: Sequence[EndedJob]) -> int:
        """Learn from jobs that ended; return how many were new. Raises NotServedHereError likewise."""
        ...
