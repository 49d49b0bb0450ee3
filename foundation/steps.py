"""A step of the chain: what a task of Airflow calls, what it knows of its run, and what it hands back.

A step is a function. Its keyword arguments are small values and URIs, as a form and earlier steps give them;
its signature is where they are declared. Arguments that no DAG states, by name: `run` (a StepRun),
`site` (a `foundation.site.Site`: of the installation, with `cluster` and `lake_uri` where the DAG states
them), `progress`, and what has no default is the installation's, as `lucid_airflow.settings` knows it
(`lake_uri`, `tracking_uri`, `state_dir`, ...). It returns a `Done`, or raises `NothingToDo`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

THE_PIPELINE = "the pipeline"  # what starts a run that no person did


class RunOutcome(StrEnum):
    """How a step ended, as people see it."""

    DONE = "done"
    REFUSED = "refused"  # a result, of a step that did what it should
    NOTHING = "nothing"  # there was nothing to do
    FAILED = "failed"  # the sentence is a reason and its remedy


class NothingToDo(Exception):  # noqa: N818 - no error: the step is skipped, and its reason is logged
    """There is nothing to do, for this reason; the step counts as skipped."""


class Decision(NamedTuple):
    """Who let a run act, why, and who had asked for it (empty: the same), in words."""

    by: str
    because: str
    asked_by: str = ""


@dataclass(frozen=True)
class Done:
    """What a step did.

    - `value`: what the steps after it take: small values and URIs, as JSON has them.
    - `sentence`: what it came to, for people; with `outcome`, and `bars`: what is measured with its unit, and
      numbers by name. `on_the_way`: it is only on the way to what the run is about.
    - `release`: the cluster and version that it is about. `page`: a page that it left, as
      `lucid/monitoring/...`. `mlflow_path`: what it left in MLflow.
    - `announced`: what DAGs that wait for its assets are given.
    - `others`: values that steps take beside `value`, by name.
    - `ends_run`: what follows has nothing to do. `skipped`: nor had this step; its `value` is kept.
    """

    value: Any
    sentence: str
    on_the_way: bool = False
    outcome: RunOutcome = RunOutcome.DONE
    bars: tuple[str, Mapping[str, float]] | None = None
    release: tuple[str, int] | None = None
    page: str | None = None
    mlflow_path: str | None = None
    announced: Mapping[str, Any] | None = None
    others: Mapping[str, Any] = field(default_factory=dict)
    ends_run: bool = False
    skipped: bool = False


class StepRun(ABC):
    """The run that a step is part of.

    `run_id`: its name; `person`: who triggered it (None: the pipeline did); `asked_at`: when, as ISO time;
    `form`: what the form said; `by_clock`: whether a schedule started it; `interval`: the interval that it is
    then about.
    """

    run_id: str
    person: str | None
    asked_at: str
    form: Mapping[str, Any]
    by_clock: bool
    interval: tuple[datetime | None, datetime | None]

    @abstractmethod
    def announced(self) -> list[dict[str, Any]]:
        """Return what the events that started the run carry, the newest last."""

    @abstractmethod
    def take_first(self, announced: Sequence[Mapping[str, Any]], *identity: str) -> list[dict[str, Any]]:
        """Return what was announced of the first thing (by `identity`); the rest is left to other runs."""

    @abstractmethod
    def started_by(self, cluster: str) -> list[str]:
        """Return the people who started this run, or one of those that led to it."""

    @abstractmethod
    def decision(self, approval: Any, cluster: str, started_by: Sequence[str]) -> Decision:
        """Return who let the run act; raises NotAllowedError where a person must have and none did.

        `approval`: what the task returned that asked a person.
        """

    @abstractmethod
    def check_right(self, cluster: str) -> None:
        """Raise NotAllowedError unless who triggered the run may do this to a cluster."""

    @abstractmethod
    def state_dir(self) -> Path:
        """Return the folder of what runs leave; raises BadInputError where the installation names none."""

    @abstractmethod
    def link_to(
        self,
        *,
        release: tuple[str, int] | None = None,
        mlflow_path: str | None = None,
        page: str | None = None,
    ) -> None:
        """Let the buttons of the task lead there, also when the step fails afterwards."""
