"""The wait model in `retrain_models`, and whether a release carries one."""

from airflow.sdk import Param

from lucid_airflow import form_fields
from lucid_airflow.part_forms import TrainedPart


def _wait_answers() -> Param:
    """Whether a release carries a wait model; may be left empty."""
    return Param(
        None,
        type=form_fields.OPTIONAL_TEXT,
        enum=["yes", "no", None],
        values_display={
            "yes": "yes: by a wait model or by playing the queue forward, whichever was off by less lately",
            "no": "no: by playing the queue forward alone",
            "null": "as the champion",
        },
        title="A wait model says when jobs start",
        description="Whether the release carries one. Empty: as the champion; where there is none, no.",
    )


def _least_jobs() -> Param:
    """Before so many jobs a wait model is not judged by its errors; may be left empty."""
    return form_fields.count(
        "Jobs that a wait model is judged on",
        "Once so many jobs have started that it and playing forward spoke of, the one that was off by less "
        "speaks. Empty: as the champion, else 30.",
        default=None,
        least=1,
        most=100_000,
    )


TRAINING_FORM = TrainedPart(
    {"waits": ()},
    fields=lambda: {"wait_answers": _wait_answers()},
    rare=lambda: {"least_jobs": _least_jobs()},
    asked=("wait_answers", "least_jobs"),
)
