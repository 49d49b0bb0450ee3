"""What all operators share: errors that Airflow understands, progress in the task's log, settings."""

import os
from collections.abc import Mapping
from typing import Any

from airflow.sdk import BaseOperator

from foundation.outside_names import reading_only_from
from foundation.progress import Progress, lines
from lucid_airflow import settings
from lucid_airflow.access.run_rights import check_right
from lucid_airflow.errors import as_airflow_errors
from lucid_airflow.links import model_version_path
from lucid_airflow.task_log import quiet_libraries
from lucid_models.releases.page_address import AIRFLOW_URL_VARIABLES, release_page_path
from lucid_models.run_owner import name_task


class LucidOperator(BaseOperator):
    """An operator that does its work in `run`; a LucidError fails the task without another try.

    It opens nothing outside of the places that forms may read from, whatever its arguments say.
    """

    # Where the buttons of the task's page lead (`links.py`); run() sets them.
    release_path: str | None = None
    mlflow_path: str | None = None
    page: str | None = None  # one that the run left, as lucid/monitoring/...

    def execute(self, context: Any) -> Any:
        """Run with our errors translated, once the places that the form names are admitted."""
        quiet_libraries()
        # What is written elsewhere, MLflow's page of a release for one, links back to here.
        os.environ.setdefault(AIRFLOW_URL_VARIABLES[0], settings.airflow_url())
        if (ti := context.get("ti")) is not None:  # runs of MLflow that an earlier try left are ended
            name_task(f"{ti.dag_id}/{ti.run_id}/{ti.task_id}/{ti.map_index}", ti.try_number)
        with as_airflow_errors(context):
            check_places(context)
            self.check_right(context, getattr(self, "cluster", None))
            with reading_only_from(settings.input_roots):
                return self.run(context)

    def run(self, context: Any) -> Any:
        """Do the work; heavy imports belong in here."""
        raise NotImplementedError(f"{type(self).__name__} must say what it does in run().")

    def check_right(self, context: Any, cluster: Any) -> None:
        """Refuse a cluster to which the person who triggered the run may not do this; one that `run` finds
        by itself is checked there.
        """
        check_right(context, cluster)

    def about_release(self, cluster: str, version: int) -> None:
        """Let the task's buttons *Release* and *MLflow* lead to this release."""
        from lucid_models.releases.manifest import release_name

        self.release_path = release_page_path(cluster, version)
        self.mlflow_path = model_version_path(release_name(cluster), version)

    def push_all(self, context: Any, values: Mapping[str, Any]) -> None:
        """Make each value an XCom of its own, beside or instead of what the task returns."""
        for key, value in values.items():
            context["ti"].xcom_push(key=key, value=value)

    def log_progress(self) -> Progress:
        """Return a progress callback that writes a line to the task's log now and then."""
        return lines(lambda line: self.log.info("%s", line))


def check_places(context: Any) -> None:
    """Check the form's fields that name a place. Raises BadInputError that names the field."""
    dag = context.get("dag")
    for name in dag.params if dag is not None else ():
        schema = dag.params.get_param(name).schema
        value = context["params"].get(name)
        if value and "reads_from" in schema:
            roots = getattr(settings, schema["reads_from"])
            roots().admit(str(value), f"Field {schema['title']!r}:")
