"""Evaluate policies: plan a sweep, simulate its runs on as many workers as there are, collect one table."""

from typing import Any
from urllib.parse import quote

from foundation.human_times import human_duration
from lucid_airflow import settings
from lucid_airflow.links import MlflowLink
from lucid_airflow.operators.base import LucidOperator
from lucid_airflow.run_results import tell


class PlanSweepOperator(LucidOperator):
    """Freeze a log's jobs in the lake and divide the runs among tasks.

    Returns what `SimulateRunsOperator` is mapped over: one sweep_uri and run_ids (of runs that are not done
    yet) a task. The cluster, the sweep's URI and the number of runs are XComs of their own.
    """

    cluster: Any
    asked: Any  # by the keys of a sweep file
    lake_uri: Any = None
    runs_per_task: Any = 1

    def run(self, context: Any) -> list[dict[str, Any]]:
        """Plan; returns the arguments of each mapped task."""
        from pipeline.search.sweeps.evaluation import plan_evaluation
        from pipeline.training.windows import only_cluster

        lake_uri = self.lake_uri or settings.lake_uri()
        cluster = self.cluster or only_cluster(lake_uri)
        self.check_right(context, cluster)
        plan = plan_evaluation(
            lake_uri=lake_uri,
            cluster=cluster,
            asked={**self.asked, "tracking": settings.tracking_uri()},
            runs_per_task=int(self.runs_per_task),
            progress=self.log_progress(),
        )
        for remark in plan["remarks"]:
            self.log.warning("%s", remark)
        tell(
            context,
            f"{plan['runs']} replays of {cluster}, {plan['reused']} of them done before, in "
            f"{len(plan['tasks'])} tasks.",
            step=True,
        )
        self.push_all(
            context, {"cluster": cluster, **{key: plan[key] for key in ("sweep_uri", "runs", "reused")}}
        )
        tasks: list[dict[str, Any]] = plan["tasks"]
        return tasks


class SimulateRunsOperator(LucidOperator):
    """Simulate some runs of a planned sweep. A run that fails is a row of the table, not a failed task."""

    sweep_uri: Any
    run_ids: Any
    replays: Any = ""  # in words, for people who watch

    def run(self, context: Any) -> dict[str, int]:
        """Simulate; returns how many runs were done and failed, and how many jobs they replayed."""
        from pipeline.search.sweeps.evaluation import simulate_chunk

        done = simulate_chunk(sweep_uri=self.sweep_uri, run_ids=self.run_ids, progress=self.log_progress())
        tell(
            context,
            f"{done['runs']} replays done, {done['failed']} of them failed; {done['jobs']:,} jobs replayed.",
            step=True,
        )
        return done


class CollectSweepOperator(LucidOperator):
    """Write the sweep's table and pictures to the lake and to MLflow; fails when a run has no result."""

    operator_extra_links = (MlflowLink(),)

    sweep_uri: Any
    cluster: Any

    def run(self, context: Any) -> dict[str, Any]:
        """Collect; returns where the table is, and the best variants."""
        from pipeline.search.sweeps.evaluation import collect_evaluation

        what_if = self._keep_what_if(context)
        result = collect_evaluation(
            sweep_uri=self.sweep_uri, cluster=self.cluster, tracking_uri=settings.tracking_uri()
        )
        self.mlflow_path = result["mlflow_path"]
        for row in result["variants"]:
            self.log.info("%s", row)
        mean_jct_h = {row["label"]: float(row["mean_jct_s"]) / 3_600.0 for row in result["variants"]}
        best = next(iter(mean_jct_h))
        tell(
            context,
            f"{result['runs']} replays of {self.cluster}: the least mean JCT has {best} "
            f"({human_duration(3_600.0 * mean_jct_h[best])}).",
            page=what_if,
            bars=("Mean JCT (h)", mean_jct_h),
        )
        return result

    def _keep_what_if(self, context: Any) -> str | None:
        """Keep what the page What if shows, where the sweep kept its jobs; returns the page's address below
        Airflow's.
        """
        from pipeline.search.sweeps.sweep import load_plan
        from pipeline.what_if.kept import AskedWhatIf, keep_what_if
        from pipeline.what_if.what_if_grade import grade_of_what_if

        plan = load_plan(self.sweep_uri)
        if not plan.keeps_jobs:
            return None
        run = context["dag_run"]
        what_if = AskedWhatIf(
            run_id=run.run_id,
            cluster=self.cluster,
            asked_by=getattr(run, "triggering_user_name", None) or "",
            asked_at=run.run_after.isoformat(timespec="seconds"),
            fields=dict(run.conf or {}),
        )
        grade = grade_of_what_if(settings.lake_uri(), self.cluster, what_if.fields, self.log_progress())
        keep_what_if(plan, what_if, settings.what_if_dir(), grade)
        return f"plugin/lucid/what-if/{quote(run.run_id, safe='')}"
