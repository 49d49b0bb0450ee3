"""What a cluster needs before a release of it goes live, step by step: what is done, what does the next."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from pipeline.overview.clusters import OLD_DAYS, ClusterAtAGlance, ReleaseAtAGlance
from pipeline.training.windows import DEFAULT_HOLD_OUT_DAYS


class StepState(StrEnum):
    """How far a step is. ATTENTION: done, and a person should look at how."""

    DONE = "done"
    ATTENTION = "attention"
    MISSING = "missing"


@dataclass(frozen=True)
class PublicationStep:
    """A step in words. `dag_id`: the DAG that does it; None: the page that brings a log."""

    name: str
    state: StepState
    sentence: str
    dag_id: str | None


def publication_steps(cluster: ClusterAtAGlance, *, simulated_profiles: bool | None) -> list[PublicationStep]:
    """The steps in their order. `simulated_profiles` None: there are no profiles."""
    return [*_of_data(cluster), _of_profiles(simulated_profiles), *_of_releases(cluster)]


def _of_data(cluster: ClusterAtAGlance) -> Iterator[PublicationStep]:
    data = cluster.data
    if data is None:
        yield PublicationStep("Jobs", StepState.MISSING, "The lake holds no jobs of it.", None)
        return
    days = (date.fromisoformat(data.last_day) - date.fromisoformat(data.first_day)).days + 1
    long_enough = days > DEFAULT_HOLD_OUT_DAYS
    yield PublicationStep(
        "Days to learn from",
        StepState.DONE if long_enough else StepState.MISSING,
        f"The log spans {days} days; the gate replays the last {DEFAULT_HOLD_OUT_DAYS}, and models learn "
        f"from those before{'.' if long_enough else ': bring more, or hold out fewer (Held-out days).'}",
        None,
    )
    yield PublicationStep(
        "Log recent enough",
        StepState.ATTENTION if data.old else StepState.DONE,
        f"The newest job is {data.age_days:,} days old"
        f"{': models learn what was so then.' if data.old else '.'}",
        None,
    )
    yield PublicationStep(
        "Nodes known",
        StepState.MISSING if data.nodes is None else StepState.DONE,
        "How many nodes it has is not known: nothing can be proven on it."
        if data.nodes is None
        else f"{data.nodes:,} nodes with {data.gpus:,} GPUs.",
        None,
    )


def _of_profiles(simulated: bool | None) -> PublicationStep:
    if simulated is None:
        state, sentence = StepState.MISSING, "There are no profiles of its GPUs."
    elif simulated:
        state = StepState.ATTENTION
        sentence = (
            "Some come from the simulated GPU: a release of a real log orders jobs and lets none share GPUs, "
            "until its GPUs are measured or 'Simulated profiles may be published' is on."
        )
    else:
        state, sentence = StepState.DONE, "All were measured on GPUs."
    return PublicationStep("Profiles measured", state, sentence, "profile_workloads")


def _of_releases(cluster: ClusterAtAGlance) -> Iterator[PublicationStep]:
    newest = cluster.challenger or cluster.live
    yield _of_training(cluster, newest)
    if newest is None:
        return
    named = f"Release {newest.version}"
    yield PublicationStep(
        "Judged",
        StepState.MISSING if newest.verdict is None else StepState.DONE,
        f"{named} {'waits for the gate' if newest.verdict is None else 'was judged by the gate'}.",
        "validate_release",
    )
    if newest.verdict is not None:
        approved = newest.verdict == "approved"
        yield PublicationStep(
            "Approved",
            StepState.DONE if approved else StepState.MISSING,
            newest.sentence or f"{named} is {newest.verdict}.",
            "validate_release",
        )
    live = cluster.live
    newer = f"; release {newest.version} is not." if cluster.challenger else "."
    yield PublicationStep(
        "Live",
        StepState.MISSING if live is None else StepState.ATTENTION if cluster.challenger else StepState.DONE,
        "No release is live: schedulers go by their heuristic."
        if live is None
        else f"Release {live.version} is live{newer}",
        "publish_release",
    )
    if live is not None:
        monitored = cluster.monitored
        ok = monitored is not None and monitored.decision == "ok"
        yield PublicationStep(
            "Monitored",
            StepState.MISSING if monitored is None else StepState.DONE if ok else StepState.ATTENTION,
            "The live release was never monitored."
            if monitored is None
            else f"The last pass, as of {monitored.as_of[:10]}, says {monitored.decision}.",
            "monitor_live",
        )


def _of_training(cluster: ClusterAtAGlance, newest: ReleaseAtAGlance | None) -> PublicationStep:
    name, dag_id = "Models trained and fresh", "retrain_models"
    if newest is None:
        return PublicationStep(name, StepState.MISSING, "No release was built yet.", dag_id)
    learned = f"Release {newest.version}"
    if newest.learned_until is None or cluster.data is None:
        return PublicationStep(name, StepState.DONE, f"{learned} has models.", dag_id)
    unseen_days = (
        date.fromisoformat(cluster.data.last_day) - date.fromisoformat(newest.learned_until[:10])
    ).days
    fresh = unseen_days <= OLD_DAYS
    return PublicationStep(
        name,
        StepState.DONE if fresh else StepState.ATTENTION,
        f"{learned} learned from jobs until {newest.learned_until[:10]}, {unseen_days} days before the last.",
        dag_id,
    )
