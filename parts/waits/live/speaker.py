"""Who says when a job starts: the wait model, or the present state played forward."""

from dataclasses import dataclass
from enum import StrEnum

from live_scheduler.forecast.submission_predictor import PLAY_FORWARD as PLAYED
from live_scheduler.live_settings import Mode
from lucid_models.amounts import counted
from parts.waits.live.settings import WaitAnswerSettings
from parts.waits.live.start_errors import MeanErrors


class SaidBy(StrEnum):
    """The two ways to say when a job starts."""

    PLAY_FORWARD = PLAYED
    WAIT_MODEL = "wait_model"


_WORDS = {SaidBy.PLAY_FORWARD: "playing the queue forward", SaidBy.WAIT_MODEL: "the learned wait model"}


@dataclass(frozen=True)
class StartSpeaker:
    """The one that speaks, and why, in a sentence."""

    said_by: SaidBy
    why: str

    @classmethod
    def by_errors(cls, mode: Mode, errors: MeanErrors, settings: WaitAnswerSettings) -> "StartSpeaker":
        """The one that was off by less; where too few jobs tell, playing forward speaks while this product
        orders the queue, and the wait model where a site's own policy does, which no play knows.
        """
        if errors.jobs >= settings.least_jobs:
            better = SaidBy.WAIT_MODEL if errors.learned < errors.played else SaidBy.PLAY_FORWARD
            return cls(
                better,
                f"Said by {_WORDS[better]}: of the last {counted(errors.jobs, 'job')} that started, the wait "
                f"model was off by a factor of {10**errors.learned:.2g} on average, and playing forward by "
                f"{10**errors.played:.2g}.",
            )
        controls = mode is Mode.CONTROL
        first = SaidBy.PLAY_FORWARD if controls else SaidBy.WAIT_MODEL
        whose = "its policy is known" if controls else "the cluster's own policy is not known"
        return cls(
            first,
            f"Said by {_WORDS[first]}, since {whose}; once {settings.least_jobs} jobs have started that both "
            f"spoke of ({errors.jobs} so far), the one that was off by less speaks.",
        )

    @classmethod
    def alone(cls, why_not_played: str) -> "StartSpeaker":
        """The wait model, of a job that cannot be played."""
        return cls(
            SaidBy.WAIT_MODEL,
            f"Said by {_WORDS[SaidBy.WAIT_MODEL]}: it cannot be played forward, for {why_not_played}.",
        )
