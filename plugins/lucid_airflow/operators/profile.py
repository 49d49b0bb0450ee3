"""Measure a cluster's GPUs: plan a stage, measure its batches side by side, collect, announce."""

from collections.abc import Sequence
from typing import Any

from airflow.sdk import SkipMixin

from lucid_airflow import settings
from lucid_airflow.handover import announce
from lucid_airflow.operators.base import LucidOperator


class PlanMeasurementsOperator(LucidOperator):
    """Plan a stage, `solo` or `pairs`, and write a plan file for each batch.

    `asked` is what the form says, as `pipeline.profiling.request.read_request` has it. Returns what
    `MeasureWorkloadsOperator` is mapped over: a batch a task. Nothing to do is an empty list: the mapped task
    is skipped. The cluster (empty: the lake's only one) is an XCom of its own.
    """

    template_fields: Sequence[str] = ("cluster", "lake_uri", "asked", "wanted", "order", "most_pairs")

    def __init__(
        self,
        *,
        stage: str,
        cluster: Any,
        asked: Any,
        lake_uri: Any = None,
        wanted: Any = True,
        order: Any = "space-filling",
        most_pairs: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stage = stage
        self.cluster = cluster
        self.asked = asked
        self.lake_uri = lake_uri
        self.wanted = wanted
        self.order = order
        self.most_pairs = most_pairs

    def run(self, context: Any) -> list[dict[str, Any]]:
        """Plan; returns the arguments of each mapped task."""
        from pipeline.profiling.steps import SOLO, plan_pair_stage, plan_solo_stage
        from pipeline.training.windows import only_cluster

        self.cluster = self.cluster or only_cluster(self.lake_uri or settings.lake_uri())
        context["ti"].xcom_push(key="cluster", value=self.cluster)
        if not self.wanted:
            self.log.info("The form asks for no %s.", self.stage)
            return []
        request = _request(self, context)
        if self.stage == SOLO:
            stage = plan_solo_stage(request)
        else:
            stage = plan_pair_stage(request, order=self.order, most=self.most_pairs)
        for remark in stage.remarks:
            self.log.info("%s", remark)
        return list(stage.batches)


class MeasureWorkloadsOperator(LucidOperator):
    """Measure one batch on one device into a table of its own.

    Stopped or killed, it goes on after the last finished measurement when it is tried again. A measurement
    that does not fit the memory, or fails, is a row of the table, not a failed task. `what` names the mapped
    task.
    """

    template_fields: Sequence[str] = ("device", "plan_uri", "table_uri", "budget_s", "what")

    def __init__(
        self,
        *,
        device: Any,
        plan_uri: Any,
        table_uri: Any,
        what: Any,
        budget_s: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.device = device
        self.plan_uri = plan_uri
        self.table_uri = table_uri
        self.what = what
        self.budget_s = budget_s

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
        self.log.info(
            "%(device)s: %(measured)d measured, %(out_of_memory)d out of memory, %(done_before)d were there "
            "before, %(left)d left",
            done,
        )
        for task, reason in {**done["failed"], **done["rejected"]}.items():
            self.log.warning("%s: %s", task, reason)
        return done


class CollectMeasurementsOperator(LucidOperator, SkipMixin):
    """Merge what the tasks measured into the cluster's table and store the profiles that it says.

    What follows is skipped when there are no profiles to store: too few, or a processor's.
    """

    inherits_from_skipmixin = True
    template_fields: Sequence[str] = ("cluster", "lake_uri", "asked")

    def __init__(self, *, cluster: Any, asked: Any, lake_uri: Any = None, **kwargs: Any) -> None:
        super().__init__(multiple_outputs=True, **kwargs)
        self.cluster = cluster
        self.asked = asked
        self.lake_uri = lake_uri

    def run(self, context: Any) -> dict[str, Any]:
        """Collect; returns where the tables are and what they hold."""
        from pipeline.profiling.steps import collect_measurements

        result = collect_measurements(_request(self, context))
        for remark in result["remarks"]:
            self.log.info("%s", remark)
        for task, reason in result["rejected_first"].items():
            self.log.warning("rejected: %s: %s", task, reason)
        self.log.info(
            "%(device)s: %(solo_measured)d configurations alone, %(pairs_measured)d pairs, %(out_of_memory)d "
            "out of memory, %(rejected)d rejected; the lake has %(solo_profiles)d solo profiles and "
            "%(pair_profiles)d pairs",
            result,
        )
        if result["simulated"]:
            self.log.warning("The simulated GPU was measured: a release for a real cluster will be refused.")
        if not result["stored"]:
            for key, value in result.items():  # skip() ends the task before anything is returned
                context["ti"].xcom_push(key=key, value=value)
            self.skip(ti=context["ti"], tasks=context["task"].get_direct_relatives(upstream=False))
        return result


class AnnounceMeasurementsOperator(LucidOperator):
    """Tell `retrain_models` that the profiles are new: the packing model is trained again."""

    template_fields: Sequence[str] = ("cluster", "lake_uri", "hold_out_days", "as_of")

    def __init__(
        self,
        *,
        cluster: Any,
        lake_uri: Any = None,
        hold_out_days: Any = None,
        as_of: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.cluster = cluster
        self.lake_uri = lake_uri
        self.hold_out_days = hold_out_days
        self.as_of = as_of

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
        return extra


def _request(operator: Any, context: Any) -> Any:
    from pipeline.profiling.request import read_request

    return read_request(
        lake_uri=operator.lake_uri or settings.lake_uri(),
        cluster=operator.cluster,
        run_id=context["run_id"],
        **operator.asked,
    )
