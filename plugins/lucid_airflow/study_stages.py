"""The tasks of a study's stages: one asks what to evaluate, one is mapped over the answer, then the next."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from lucid_airflow.operators.step import StepOperator


class StudyStage(NamedTuple):
    """What a study is asked (`StoredStudy.ask`), and the name of the tasks: ask_NAME, evaluate_NAME."""

    stage: str
    number: int
    name: str


def rounds(most: int) -> list[StudyStage]:
    """Return numbered rounds: the graph is fixed when it is parsed, those beyond the form's are skipped."""
    return [StudyStage("round", number, f"round_{number}") for number in range(most)]


def study_stages(stages: Iterable[StudyStage], *, after: Any, before: Any, **arguments: Any) -> None:
    """Wire the tasks of stages between two tasks, the latter of which runs whatever rounds were skipped.

    `arguments` are those of `pipeline.steps.studies:ask_stage`: study, study_uri, rounds, per_task.
    """
    last = after
    for stage, number, name in stages:
        ask = StepOperator(
            task_id=f"ask_{name}",
            step="pipeline.steps.studies:ask_stage",
            arguments={"stage": stage, "round_number": number, **arguments},
            trigger_rule="all_success" if stage == "round" else "none_failed",
        )
        evaluate = StepOperator.partial(
            task_id=f"evaluate_{name}", step="pipeline.steps.studies:evaluate"
        ).expand(arguments=ask.output)
        last >> ask >> evaluate
        last = evaluate
    last >> before
