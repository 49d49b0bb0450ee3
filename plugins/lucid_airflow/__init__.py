"""The Airflow plugin: operators, triggers, links and form fields over the packages.

A task calls a step of the pipeline by its place: `StepOperator`, of which the arguments are those of the step
(CONTRIBUTING.md, "Add a step"). Operators of their own have what waits: for a person (`approval`), for a job
of Slurm's (`profile_on_slurm`), and what starts the next run (`rest`). The wiring is in `dags/`.
"""

from typing import TYPE_CHECKING

from foundation.lazy_names import lazy_names

if TYPE_CHECKING:
    from lucid_airflow.operators.base import LucidOperator as LucidOperator
    from lucid_airflow.operators.step import StepOperator as StepOperator

__getattr__, __dir__ = lazy_names(__name__)
