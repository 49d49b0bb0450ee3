"""Tune the system: plan a study, ask for rounds of trials, evaluate them side by side, propose settings."""

from typing import Any

from lucid_airflow import settings
from lucid_airflow.links import MlflowLink, ReleaseLink
from lucid_airflow.operators.base import LucidOperator, SkippingOperator
from lucid_airflow.operators.declared_fields import Verbatim
from lucid_airflow.run_results import tell


class PlanTuningOperator(LucidOperator, multiple_outputs=True):
    """Freeze the days before the held-out window in the lake, around the cluster's current release."""

    cluster: Any
    lake_uri: Any = None
    asked: Any

    def run(self, context: Any) -> dict[str, Any]:
        """Plan; returns the study's URI, the lake's, and the release that is tuned."""
        from pipeline.search.tuning.steps import plan_tuning
        from pipeline.training.windows import only_cluster
        from pipeline.validation.held_out_days import usual_held_out

        lake_uri, tracking_uri = self.lake_uri or settings.lake_uri(), settings.tracking_uri()
        cluster = self.cluster or only_cluster(lake_uri)
        self.check_right(context, cluster)
        days = self.asked.get("hold_out_days") or usual_held_out(tracking_uri, cluster, lake_uri)
        plan = plan_tuning(
            lake_uri=lake_uri,
            cluster=cluster,
            tracking_uri=tracking_uri,
            asked={**self.asked, "hold_out_days": days},
            progress=self.log_progress(),
        )
        for remark in plan["remarks"]:
            self.log.warning("%s", remark)
        self.log.info("The study is %s", plan["study_uri"])
        tell(context, f"Release {plan['base_release']} of {cluster} is tuned.", step=True)
        return {**plan, "lake_uri": lake_uri}


class AskTrialsOperator(LucidOperator):
    """Ask the optimiser for a round of trials, by what the rounds before it found.

    Returns what `EvaluateTrialsOperator` is mapped over: one study_uri and trial_ids a task.
    """

    round_number: Verbatim[int]
    study_uri: Any
    rounds: Any
    trials_per_task: Any = 1

    def run(self, context: Any) -> list[dict[str, Any]]:
        """Ask; a round that was asked for before is the same again, without the trials that are done."""
        from pipeline.search.tuning.steps import ask_trials

        batches = ask_trials(
            study_uri=self.study_uri,
            round_number=self.round_number,
            rounds=int(self.rounds),
            trials_per_task=int(self.trials_per_task),
        )
        trials = sum(len(task["trial_ids"]) for task in batches)
        if batches:
            tell(context, f"Round {self.round_number}: {trials} trials in {len(batches)} tasks.", step=True)
        else:
            tell(context, f"Round {self.round_number} has nothing to try.", step=True)
        return batches


class EvaluateTrialsOperator(LucidOperator):
    """Replay some trials. A trial that fails is a record of the study, not a failed task."""

    study_uri: Any
    trial_ids: Any

    def run(self, context: Any) -> dict[str, int]:
        """Replay; returns how many trials were run and how many of them failed."""
        from pipeline.search.tuning.rounds import evaluate_trials

        done = evaluate_trials(self.study_uri, self.trial_ids, self.log_progress())
        tell(context, f"{done['trials']} trials run, {done['failed']} of them failed.", step=True)
        return done


class ProposeSettingsOperator(SkippingOperator, multiple_outputs=True):
    """Validate the best trial on days that chose nothing; go on only if it is better there."""

    operator_extra_links = (MlflowLink(),)

    study_uri: Any

    def run(self, context: Any) -> dict[str, Any]:
        """Propose; returns the sentence, the changes, and where the tables are."""
        from pipeline.search.tuning.steps import propose_settings

        result = propose_settings(
            study_uri=self.study_uri, tracking_uri=settings.tracking_uri(), progress=self.log_progress()
        )
        self.mlflow_path = result["mlflow_path"]
        tell(
            context,
            f"Settings of {result['cluster']}: {result['sentence']}",
            bars=(f"{result['objective']} on the search days", result["figures"]),
        )
        if not result["proposed"]:
            self.skip_what_follows(context, result)
        return result


class BuildTunedReleaseOperator(LucidOperator):
    """Pin the proposed settings, with the models of the release that was tuned, in a new challenger."""

    operator_extra_links = (ReleaseLink(), MlflowLink())

    study_uri: Any
    lake_uri: Any

    def run(self, context: Any) -> dict[str, Any]:
        """Build; returns the release's name and version."""
        from pipeline.search.tuning.steps import build_tuned_release

        built = build_tuned_release(
            study_uri=self.study_uri, tracking_uri=settings.tracking_uri(), lake_uri=str(self.lake_uri)
        )
        inputs = {name: built[name] for name in ("hold_out_days", "as_of")}
        self.announce_built(context, built["cluster"], built["version"], lake_uri=self.lake_uri, **inputs)
        tell(
            context,
            f"Release {built['version']} of {built['cluster']} was built with the proposed settings.",
            release=(built["cluster"], int(built["version"])),
        )
        return {"name": built["name"], "version": built["version"]}
