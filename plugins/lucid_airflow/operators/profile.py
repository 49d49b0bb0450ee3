"""Measure a cluster's GPUs: plan a stage, measure its batches side by side, collect, announce."""

from collections.abc import Mapping
from typing import Any

from lucid_airflow import settings
from lucid_airflow.handover import announce
from lucid_airflow.operators.base import LucidOperator, SkippingOperator
from lucid_airflow.operators.declared_fields import Verbatim
from lucid_airflow.run_results import tell


class PlanMeasurementsOperator(LucidOperator):
    """Plan a stage, `solo` or `pairs`, and write a plan file for each batch.

    `asked` is what the form says, as `pipeline.profiling.request.read_request` has it. Returns what
    `MeasureWorkloadsOperator` is mapped over: a batch a task. Nothing to do is an empty list: the mapped task
    is skipped. The cluster (empty: the lake's only one) is an XCom of its own.
    """

    stage: Verbatim[str]
    cluster: Any
    lake_uri: Any = None
    asked: Any
    wanted: Any = True
    order: Any = "space-filling"
    most_pairs: Any = None

    def run(self, context: Any) -> list[dict[str, Any]]:
        """Plan; returns the arguments of each mapped task."""
        from pipeline.profiling.steps import SOLO, plan_pair_stage, plan_solo_stage
        from pipeline.training.windows import only_cluster

        self.cluster = self.cluster or only_cluster(self.lake_uri or settings.lake_uri())
        self.check_right(context, self.cluster)
        context["ti"].xcom_push(key="cluster", value=self.cluster)
        if not self.wanted:
            tell(context, f"The form asks for no {self.stage}.", step=True)
            return []
        request = _request(self, context)
        if self.stage == SOLO:
            stage = plan_solo_stage(request)
        else:
            stage = plan_pair_stage(request, order=self.order, most=self.most_pairs)
        for remark in stage.remarks:
            self.log.info("%s", remark)
        batches = list(stage.batches)
        words = f"{len(batches)} batches to measure" if batches else "nothing to measure"
        tell(context, f"Stage {self.stage} of {self.cluster}: {words}.", step=True)
        return batches


class MeasureWorkloadsOperator(LucidOperator):
    """Measure one batch on one device into a table of its own.

    Stopped or killed, it goes on after the last finished measurement when it is tried again. A measurement
    that does not fit the memory, or fails, is a row of the table, not a failed task. `what` names the mapped
    task.
    """

    device: Any
    plan_uri: Any
    table_uri: Any
    budget_s: Any = None
    what: Any

    def run(self, context: Any) -> dict[str, Any]:
        """Measure; returns what became of the batch."""
        from pipeline.profiling.steps import measure_batch

        done = measure_batch(
            plan_uri=self.plan_uri,
            table_uri=self.table_uri,
            device=self.device,
            budget_s=self.budget_s,
            progress=self.log_progress(),
        )
        for task, reason in {**done["failed"], **done["rejected"]}.items():
            self.log.warning("%s: %s", task, reason)
        counts = (
            "{device}: {measured} measured, {out_of_memory} out of memory, {done_before} were there before, "
        )
        tell(context, f"{counts}{{left}} left.".format(**done), step=True)
        return done


class CollectMeasurementsOperator(SkippingOperator, multiple_outputs=True):
    """Merge what the tasks measured into the cluster's table and store the profiles that it says.

    What follows is skipped when there are no profiles to store: too few, or a processor's.
    """

    cluster: Any
    lake_uri: Any = None
    asked: Any

    def run(self, context: Any) -> dict[str, Any]:
        """Collect; returns where the tables are and what they hold."""
        from pipeline.profiling.steps import collect_measurements

        result = collect_measurements(_request(self, context))
        for remark in result["remarks"]:
            self.log.info("%s", remark)
        for task, reason in result["rejected_first"].items():
            self.log.warning("rejected: %s: %s", task, reason)
        tell(context, _measured(str(self.cluster), result), bars=("Measurements", _counts(result)))
        if not result["stored"]:
            self.skip_what_follows(context, result)
        return result


class AnnounceMeasurementsOperator(LucidOperator, is_step=True):
    """Tell `retrain_models` that the profiles are new: the packing model is trained again."""

    cluster: Any
    lake_uri: Any = None
    hold_out_days: Any = None
    as_of: Any = None

    def run(self, context: Any) -> dict[str, Any]:
        """Announce; returns what the retraining is told."""
        extra = {
            "cluster": self.cluster,
            "lake_uri": self.lake_uri or settings.lake_uri(),
            "models": ["packing"],
            "hold_out_days": self.hold_out_days,
            "as_of": self.as_of,
        }
        announce(context, extra)
        tell(context, f"The profiles of {self.cluster} are announced: retrain_models starts.", step=True)
        return extra


def _measured(cluster: str, result: Mapping[str, Any]) -> str:
    parts = ", ".join(f"{count} {name}" for name, count in _counts(result).items())
    stored = (
        f"the lake has {result['solo_profiles']} solo profiles and {result['pair_profiles']} pairs"
        if result["stored"]
        else "no profiles are stored"
    )
    warning = (
        " The simulated GPU was measured: a release of a real log orders jobs and lets none share GPUs."
        if result["simulated"]
        else ""
    )
    return f"Profiles of {cluster} on {result['device']}: {parts}; {stored}.{warning}"


def _counts(result: Mapping[str, Any]) -> dict[str, int]:
    return {
        "alone": int(result["solo_measured"]),
        "pairs": int(result["pairs_measured"]),
        "out of memory": int(result["out_of_memory"]),
        "rejected": int(result["rejected"]),
    }


def _request(operator: Any, context: Any) -> Any:
    from pipeline.profiling.request import ProfilingForm, read_request

    return read_request(
        ProfilingForm(**operator.asked),
        lake_uri=operator.lake_uri or settings.lake_uri(),
        cluster=operator.cluster,
        run_id=context["run_id"],
    )
