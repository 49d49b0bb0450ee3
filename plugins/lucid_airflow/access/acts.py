"""What people do with clusters and their releases, by which DAG they do it, and the roles that may."""

from collections.abc import Mapping
from enum import StrEnum

from foundation.parts import installed_parts


class Act(StrEnum):
    """What a person may have the right to do; looking is no act."""

    STUDY = "study"
    TRAIN = "train"
    JUDGE = "judge"
    APPROVE = "approve"
    PUBLISH = "publish"
    ROLL_BACK = "roll_back"
    REMOVE = "remove"


MEANING: Mapping[Act, str] = {
    Act.STUDY: "ask what if, plan capacity, study a log: nothing of a release changes",
    Act.TRAIN: "bring a cluster's log, measure its GPUs, train and tune its models: a challenger at most",
    Act.JUDGE: "let the gate judge a release, and have the live one monitored",
    Act.APPROVE: "answer what runs ask: whether a release is published, which point of a front becomes one",
    Act.PUBLISH: "ask for a publication, sign the present one anew",
    Act.ROLL_BACK: "go back to the previous release",
    Act.REMOVE: "take a cluster out of the lake, or what is past its retention",
}

# Whoever starts a run of a DAG does this; of a part's DAG the part says it.
_ACT_OF_DAG: Mapping[str, Act] = {
    "evaluate_policies": Act.STUDY,
    "plan_capacity": Act.STUDY,
    "ingest_logs": Act.TRAIN,
    "profile_workloads": Act.TRAIN,
    "retrain_models": Act.TRAIN,
    "tune_system": Act.TRAIN,
    "validate_release": Act.JUDGE,
    "monitor_live": Act.JUDGE,
    "publish_release": Act.PUBLISH,
    "renew_publications": Act.PUBLISH,
    "rollback_release": Act.ROLL_BACK,
    "remove_cluster": Act.REMOVE,
    "apply_retention": Act.REMOVE,
}
# Their runs ask a person; who answers does the act APPROVE.
_ASKING_DAGS = ("publish_release",)

# Each may look at everything besides. Who is to do more has several of them.
ROLES: Mapping[str, tuple[Act, ...]] = {
    "Lucid Viewer": (),
    "Lucid Trainer": (Act.STUDY, Act.TRAIN, Act.JUDGE),
    "Lucid Approver": (Act.APPROVE,),
    "Lucid Publisher": (Act.PUBLISH, Act.ROLL_BACK),
    "Lucid Admin": tuple(Act),
}


def act_of_dags() -> dict[str, Act]:
    """Return what a person does who starts a run, by DAG."""
    of_parts = {dag.dag_id: Act(dag.act) for part in installed_parts() for dag in part.dags}
    return {**_ACT_OF_DAG, **of_parts}


def dags_of(act: Act) -> tuple[str, ...]:
    """Return the DAGs by which it is done: whose runs are started, or answered."""
    if act is Act.APPROVE:
        asking = (dag.dag_id for part in installed_parts() for dag in part.dags if dag.asks)
        return (*_ASKING_DAGS, *asking)
    return tuple(dag_id for dag_id, done in act_of_dags().items() if done is act)


def roles_table() -> str:
    """Return who may do what, as Markdown."""
    rows = ["| act | what it is | by the DAG | roles |", "| --- | --- | --- | --- |"]
    for act in Act:
        dags = ", ".join(f"`{dag_id}`" for dag_id in dags_of(act))
        how = f"answers of {dags}" if act is Act.APPROVE else dags
        roles = ", ".join(role for role, acts in ROLES.items() if act in acts)
        rows.append(f"| `{act}` | {MEANING[act]} | {how} | {roles} |")
    return "\n".join(rows)
