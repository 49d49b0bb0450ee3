"""One operator for all steps of the pipeline."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow.sdk import SkipMixin
from airflow.sdk.exceptions import AirflowSkipException

from foundation.errors import ReleaseRefusedError
from foundation.parts import at_place
from lucid_airflow import settings
from lucid_airflow.handover import REQUEST_REST, announce
from lucid_airflow.operators.base import LucidOperator
from lucid_airflow.run_results import tell


class StepOperator(LucidOperator, SkipMixin):
    """Call a step, a function of the pipeline or of a part, by its place (MODULE:NAME).

    `arguments` are those of its signature that the DAG states: templates, parameters of the form, results of
    other tasks. What it has besides is described in `foundation/steps.py`. `links`: the buttons of the task's
    page that it may set. `may_end_run`: what it finds out may leave nothing to do to the tasks after it.
    """

    inherits_from_skipmixin = False
    template_fields: Sequence[str] = ("arguments",)

    def __init__(
        self,
        *,
        step: str,
        arguments: Any = None,
        links: Sequence[Any] = (),
        may_end_run: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.step = step
        self.arguments = arguments
        self.operator_extra_links = tuple(links)
        self.inherits_from_skipmixin = may_end_run

    def run(self, context: Any) -> Any:
        """Call it; tells and announces what it did, and returns its value."""
        from foundation.steps import Done, NothingToDo
        from lucid_airflow.step_run import AirflowRun

        function, run = at_place(self.step), AirflowRun(self, context)
        given = dict(self.arguments or {})
        for name, parameter in inspect.signature(function).parameters.items():
            if name in given:
                continue
            if name == "run":
                given[name] = run
            elif name == "site":
                lake, cluster = given.pop("lake_uri", None), given.pop("cluster", None)
                site = settings.site(cluster or "")
                given[name] = replace(site, lake=lake or site.lake, progress=self.log_progress())
            elif name == "progress":
                given[name] = self.log_progress()
            elif parameter.default is parameter.empty and hasattr(settings, name):
                given[name] = getattr(settings, name)()
        try:
            done = function(**given)
        except NothingToDo as nothing:
            raise AirflowSkipException(str(nothing)) from nothing
        if not isinstance(done, Done):
            return done
        run.link_to(release=done.release, mlflow_path=done.mlflow_path, page=done.page)
        if done.announced is not None:
            announce(context, done.announced)
        self.push_all(context, done.others)
        if done.skipped and settings.refused_runs_fail():
            self.push_all(context, done.value)  # what ends without success returns nothing
            raise ReleaseRefusedError(done.sentence)
        tell(
            context,
            done.sentence,
            outcome=done.outcome,
            release=done.release,
            page=done.page,
            bars=done.bars,
            step=done.on_the_way,
        )
        if done.skipped:
            self.push_all(context, done.value)
            raise AirflowSkipException
        if done.ends_run:
            self.skip_what_follows(context, done.value)
        return done.value

    def skip_what_follows(self, context: Any, result: Mapping[str, Any]) -> None:
        """Keep the result and skip the tasks after this one, but for the one that hands on to the next run.

        Airflow ends a task that skips others: nothing is returned then.
        """
        self.push_all(context, result)
        following = context["task"].get_direct_relatives(upstream=False)
        self.skip(ti=context["ti"], tasks=[task for task in following if task.task_id != REQUEST_REST])
