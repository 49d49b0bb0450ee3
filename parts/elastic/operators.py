"""Search a Pareto front of PCS, let a person pick a point of it, and build its release."""

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import SkipMixin
from airflow.sdk.exceptions import AirflowSkipException

from lucid_airflow import settings
from lucid_airflow.access.run_rights import objection_to
from lucid_airflow.errors import as_airflow_errors
from lucid_airflow.links import FrontLink, MlflowLink, ReleaseLink
from lucid_airflow.operators.approval import name_of
from lucid_airflow.operators.base import LucidOperator
from lucid_airflow.operators.declared_fields import Verbatim
from lucid_airflow.run_results import tell

NONE = "None of them"


class PlanSearchOperator(LucidOperator, multiple_outputs=True):
    """Freeze a cluster's jobs before the held-out window, and what is preferred.

    That many `rounds` of `round_size` configurations each.
    """

    cluster: Any
    rounds: Any
    round_size: Any
    asked: Any
    lake_uri: Any = None

    def run(self, context: Any) -> dict[str, Any]:
        """Plan; returns the search's URI and the lake's."""
        from parts.elastic.pareto.steps import plan_search
        from pipeline.training.windows import DEFAULT_HOLD_OUT_DAYS, only_cluster
        from pipeline.validation.held_out_days import usual_held_out

        lake_uri = self.lake_uri or settings.lake_uri()
        cluster = self.cluster or only_cluster(lake_uri)
        self.check_right(context, cluster)
        days = (
            self.asked.get("hold_out_days")
            or usual_held_out(settings.tracking_uri(), cluster, lake_uri)
            or DEFAULT_HOLD_OUT_DAYS
        )
        sizes = {"evaluations": int(self.rounds) * int(self.round_size), "round_size": int(self.round_size)}
        plan = plan_search(
            lake_uri=lake_uri,
            cluster=cluster,
            asked={**self.asked, **sizes, "hold_out_days": days},
            progress=self.log_progress(),
        )
        for remark in plan["remarks"]:
            self.log.warning("%s", remark)
        self.log.info("The search is at %s", plan["study_uri"])
        tell(context, f"The front of {cluster} is searched in {plan['rounds']} rounds.", step=True)
        return {**plan, "lake_uri": lake_uri, "cluster": cluster, "hold_out_days": days}


class AskSimulationsOperator(LucidOperator):
    """Ask what to simulate next: a round's candidates, or the front on more samples.

    `stage` is "round" (`round_number` of `rounds`; those beyond are skipped), "confirm" or "hold_out".
    Returns what `EvaluateConfigurationsOperator` is mapped over.
    """

    stage: Verbatim[str]
    round_number: Verbatim[int] = 0
    study_uri: Any
    rounds: Any = 0
    evaluations_per_task: Any = 4

    def run(self, context: Any) -> list[dict[str, Any]]:
        """Ask; what was asked for before is the same again, without what is known."""
        from parts.elastic.pareto.steps import ask_simulations

        if self.stage == "round" and self.round_number >= int(self.rounds):
            raise AirflowSkipException(f"The search has {self.rounds} rounds.")
        tasks = ask_simulations(
            study_uri=self.study_uri,
            stage=self.stage,
            round_number=self.round_number,
            evaluations_per_task=int(self.evaluations_per_task),
        )
        simulations = sum(len(task["evaluations"]) for task in tasks)
        tell(context, f"{simulations} simulations in {len(tasks)} tasks.", step=True)
        return tasks


class EvaluateConfigurationsOperator(LucidOperator):
    """Simulate some configurations on samples of the workload."""

    study_uri: Any
    evaluations: Any

    def run(self, context: Any) -> dict[str, int]:
        """Simulate; returns how many were run."""
        from parts.elastic.pareto.steps import evaluate_batch

        done = evaluate_batch(
            study_uri=self.study_uri, evaluations=self.evaluations, progress=self.log_progress()
        )
        tell(context, f"{len(self.evaluations)} configurations were simulated.", step=True)
        return done


class CollectFrontOperator(LucidOperator, multiple_outputs=True):
    """Write the front with its interactive page, here and in MLflow."""

    operator_extra_links = (FrontLink(), MlflowLink())

    study_uri: Any
    cluster: Any

    def run(self, context: Any) -> dict[str, Any]:
        """Collect; returns the front's rows, the run in MLflow, and Markdown for the person that picks."""
        from parts.elastic.pareto.front_choice import front_markdown, keep_page
        from parts.elastic.pareto.presented import read_front
        from parts.elastic.pareto.steps import finish_search

        finished = finish_search(study_uri=self.study_uri, tracking_uri=settings.tracking_uri())
        self.mlflow_path = finished["mlflow_path"]
        front = read_front(self.study_uri)
        kept = keep_page(
            front, finished["files"], pages_dir=settings.pages_dir("fronts"), cluster=self.cluster
        )
        self.page = f"lucid/fronts/{kept}" if kept else None
        base = settings.mlflow_ui_url()
        summary = front_markdown(
            front,
            page_url=settings.airflow_path(self.page) if self.page else None,
            mlflow_url=f"{base}/#/{self.mlflow_path}" if base and self.mlflow_path else None,
        )
        self.log.info("%s", summary)
        tell(
            context,
            f"The front of {self.cluster} has {len(finished['front'])} points to choose from.",
            page=self.page,
        )
        return {"front": finished["front"], "run_id": finished["run_id"], "summary": summary}


class RequestChoiceOperator(HITLOperator, SkipMixin):
    """Wait for a person to pick a point of the front in the UI; `pick` names one at once.

    Nothing picked, or no answer in time: what follows is skipped. Returns the point as `front_id`.
    """

    inherits_from_skipmixin = True
    template_fields: Sequence[str] = ("subject", "body", "study_uri", "pick", "cluster")

    def __init__(self, *, study_uri: Any, cluster: Any, pick: Any = None, **kwargs: Any) -> None:
        super().__init__(options=[NONE], defaults=[NONE], multiple_outputs=True, **kwargs)
        self.study_uri = study_uri
        self.cluster = cluster
        self.pick = pick

    def execute(self, context: Any) -> Any:
        """Ask, with the front's points as the answers to choose from."""
        with as_airflow_errors(context):
            labels = self._offer()
            if self.pick:
                from parts.elastic.pareto.presented import read_front

                point = read_front(self.study_uri).point(str(self.pick))
                tell(context, f"The form picked {point.front_id}.", step=True)
                return {"front_id": point.front_id}
        self.log.info("Waiting for a person to pick one of %d points", len(labels))
        return super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Take the answer."""
        with as_airflow_errors(context):
            labels = self._offer()
            user = event.get("responded_by_user")
            objection = user and objection_to(name_of(user), str(self.cluster))
        if objection:
            tell(context, f"{objection} It is asked again.", step=True)
            return super().execute(context)
        answer = super().execute_complete(context, event)
        (option,) = answer["chosen_options"]
        if option == NONE:
            tell(context, "Nothing was picked: no release is built.")
            self.skip(ti=context["ti"], tasks=context["task"].get_direct_relatives(upstream=False))
            return {}
        tell(context, f"{labels[option]} was picked.", step=True)
        return {"front_id": labels[option], "picked_by": dict(user) if user else None}

    def _offer(self) -> Mapping[str, str]:
        from parts.elastic.pareto.front_choice import choices_of
        from parts.elastic.pareto.presented import read_front

        labels = choices_of(read_front(self.study_uri))
        self.options = [*labels, NONE]
        return labels


class BuildPickedReleaseOperator(LucidOperator):
    """Pin the picked configuration, with the models of the current release, in a new challenger."""

    operator_extra_links = (ReleaseLink(), MlflowLink())

    study_uri: Any
    front_id: Any
    run_id: Any = None
    cluster: Any
    lake_uri: Any
    hold_out_days: Any
    as_of: Any = None
    jct_price_pct: Any = None

    def run(self, context: Any) -> dict[str, Any]:
        """Build; returns the release's name and version, and what it was chosen for."""
        from parts.elastic.pareto.presented import read_front
        from parts.elastic.pareto.release_choice import build_picked_release, describe_choice
        from pipeline.training.windows import read_as_of
        from pipeline.validation.held_out_days import HeldOutDays

        release = build_picked_release(
            front=read_front(self.study_uri),
            front_id=str(self.front_id),
            run_id=self.run_id,
            tracking_uri=settings.tracking_uri(),
            lake_uri=self.lake_uri,
            cluster=self.cluster,
            held_out=HeldOutDays(int(self.hold_out_days), read_as_of(self.as_of)),
            jct_price_pct=None if self.jct_price_pct is None else float(self.jct_price_pct),
        )
        says = describe_choice(release.choice or {})
        inputs = {"lake_uri": self.lake_uri, "hold_out_days": int(self.hold_out_days), "as_of": self.as_of}
        self.announce_built(context, release.cluster, release.version, **inputs)
        tell(
            context,
            f"Release {release.version} of {self.cluster} was built: {says}",
            release=(str(self.cluster), release.version),
        )
        return {"name": release.name, "version": release.version, "says": says}
