"""The forecast of inference load: what is trained, and how many servers the next hours let lend."""

from typing import Any

from airflow.sdk.exceptions import AirflowSkipException

from lucid_airflow import settings
from lucid_airflow.assets import INFERENCE_LOAD_TABLE
from lucid_airflow.handover import announcements, take_first
from lucid_airflow.links import MlflowLink
from lucid_airflow.operators.base import LucidOperator
from lucid_airflow.run_results import tell


class ResolveLoadOperator(LucidOperator, multiple_outputs=True, is_step=True):
    """Find out which cluster's load is forecast, and whether its forecast is trained anew.

    The form's cluster, else the one that was announced, else every cluster of the lake with load; of several
    the first, the rest is left to runs of their own. Skipped where no cluster has any.
    """

    cluster: Any = None
    lake_uri: Any = None
    hold_out_days: Any = None
    as_of: Any = None
    train_anew: Any = False

    def run(self, context: Any) -> dict[str, Any]:
        """Merge form and events, and plan; returns what the tasks after it are told."""
        from pipeline.loaning.forecast_plan import clusters_with_load, plan_load_forecast
        from pipeline.training.windows import read_as_of

        lake_uri = self.lake_uri or settings.lake_uri()
        announced = announcements(context, INFERENCE_LOAD_TABLE)
        if self.cluster:
            announced = [{"cluster": self.cluster}]
        announced = announced or [{"cluster": name} for name in clusters_with_load(lake_uri)]
        if not announced:
            raise AirflowSkipException("The lake has no inference load yet: nothing to forecast.")
        mine = take_first(context, announced, "cluster")[-1]
        self.check_right(context, mine["cluster"])
        lake_uri = mine.get("lake_uri") or lake_uri
        as_of = read_as_of(self.as_of or mine.get("as_of"))
        plan = plan_load_forecast(
            lake_uri=lake_uri,
            cluster=str(mine["cluster"]),
            tracking_uri=settings.tracking_uri(),
            hold_out_days=int(self.hold_out_days) if self.hold_out_days else None,
            as_of=as_of,
            anew=bool(self.train_anew),
        )
        for remark in (*plan.remarks, *plan.reasons.values()):
            self.log.info("%s", remark)
        anew = "is trained anew" if plan.models else "is new enough"
        tell(context, f"The forecast of {plan.cluster}'s inference load {anew}.", step=True)
        return {
            "cluster": plan.cluster,
            "lake_uri": lake_uri,
            "as_of": as_of.isoformat() if as_of else None,
            "training_until": plan.training_until.isoformat(),
            "models": list(plan.models),
            "version": plan.version,
            "reasons": dict(plan.reasons),
        }


class ForecastLoadOperator(LucidOperator):
    """Forecast the next hours of a cluster's inference load, and log the picture in MLflow.

    `trained_version` of the forecast, if one was trained, else `kept_version`.
    """

    operator_extra_links = (MlflowLink(),)

    cluster: Any
    lake_uri: Any
    trained_version: Any = None
    kept_version: Any = None
    hours: Any = 3
    as_of: Any = None

    def run(self, context: Any) -> dict[str, Any]:
        """Forecast; returns how many servers could be lent now and over the hours."""
        from pipeline.loaning.forecast_hours import forecast_hours
        from pipeline.training.windows import read_as_of

        announced = forecast_hours(
            lake_uri=self.lake_uri,
            cluster=self.cluster,
            tracking_uri=settings.tracking_uri(),
            version=int(self.trained_version or self.kept_version),
            hours=float(self.hours),
            as_of=read_as_of(self.as_of),
        )
        self.mlflow_path = announced.mlflow_path
        tell(context, announced.sentence)
        return announced.to_data()
