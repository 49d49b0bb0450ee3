"""Another forecast of when waiting jobs start, beside playing forward: what a part may bring."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from live_scheduler.capability import capabilities
from live_scheduler.cluster_state import LiveJob
from live_scheduler.daemon import Daemon
from live_scheduler.forecast.completion_forecast import JobForecast
from live_scheduler.forecast.submission_predictions import SubmissionPrediction
from live_scheduler.live_view import LiveView

PLAY_FORWARD = "play_forward"


@dataclass(frozen=True)
class StartOpinion:
    """When a job starts (Unix s) by another forecast, and which of the two is believed and why.

    `said_by` is `PLAY_FORWARD` where playing forward is believed, else the other's name; `assumptions` are
    what its times assume.
    """

    start_p50_s: float
    start_p90_s: float
    said_by: str
    why: str
    assumptions: tuple[str, ...]

    @property
    def believed(self) -> bool:
        """Whether these times are told, not those that were played."""
        return self.said_by != PLAY_FORWARD


class OtherStarts(ABC):
    """Another forecast of one daemon's queue, asked from the threads of passes, predictions and answers."""

    @abstractmethod
    def waits_s(self, view: LiveView) -> Mapping[str, float]:
        """Return the P50 of how long jobs of the view go on waiting, by job, where it says anything."""

    @abstractmethod
    def opinion(self, view: LiveView, job: LiveJob, played: JobForecast) -> StartOpinion | None:
        """Return what it says of a job that waits and may start; None: nothing."""

    @abstractmethod
    def told(self, predictions: Iterable[SubmissionPrediction]) -> None:
        """Take in what was said of new jobs, by it and by playing forward."""

    @abstractmethod
    def passed(self, view: LiveView) -> None:
        """Take in which jobs have started by a pass."""


def other_starts_of(daemon: Daemon) -> OtherStarts | None:
    """Return the other forecast that an installed part brings; None: none does."""
    found = (part.other_starts(daemon) for part in capabilities().values())
    return next((each for each in found if each is not None), None)
