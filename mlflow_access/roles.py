"""What a role may write in MLflow. Names are those that `lucid_models` and `pipeline` give.

A release goes live by three hands, and no account of a service is two of them:

    train     experiments, runs and models of ours; a new release, and the alias `challenger`
    judge     the gate's runs; the tags that say what the verdict is
    publish   the aliases that schedulers follow; the tags and runs that say who published what
    schedule  reads the releases of its one cluster, with their verdicts and publications; nothing else
    upkeep    removes the files of what was deleted
    read      reads everything
    admin     everything, MLflow's own parts that this product does not use as well
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from foundation.parts import installed_parts

ADMIN, TRAIN, JUDGE, PUBLISH = "admin", "train", "judge", "publish"
SCHEDULE, UPKEEP, READ = "schedule", "upkeep", "read"

RELEASES = "lucid-release"  # the experiment
RELEASE_MODELS = f"{RELEASES}-"  # followed by the cluster
VERDICTS, STUDIES, PUBLICATIONS = "lucid-release-validation", "lucid-gate-studies", "lucid-publications"
# Runs of these are closed when they end: what schedulers follow or believe is not written over afterwards.
CLOSED_WHEN_ENDED = frozenset({RELEASES, VERDICTS, PUBLICATIONS})
# Where a scheduler finds, by a run's tag `cluster`, what was said of its releases.
SAID_OF_RELEASES = frozenset({VERDICTS, PUBLICATIONS})


@dataclass(frozen=True)
class Rights:
    """What a role may write; names may hold `*`.

    `experiments`: made, and their runs written, files as well. `annotated`: runs of these get parameters,
    metrics and tags, also when they have ended, and no files. `models`: registered, with versions. Of models
    of releases `version_tags` and `model_tags` may be set and deleted, `born_with` be given to a new version,
    and `aliases` be moved. `expires`: deletes runs, and versions that no alias names;
    `collects`: removes the files of what was deleted.
    """

    reads_all: bool = True
    experiments: frozenset[str] = frozenset()
    annotated: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()
    described: bool = False
    version_tags: frozenset[str] = frozenset()
    model_tags: frozenset[str] = frozenset()
    born_with: frozenset[str] = frozenset()
    aliases: frozenset[str] = frozenset()
    expires: bool = False
    collects: bool = False


ROLES: Mapping[str, Rights] = {
    ADMIN: Rights(),  # is not asked
    TRAIN: Rights(
        experiments=frozenset(
            {
                RELEASES,
                "lucid-training",
                "lucid-monitoring",
                "lucid-tuning",
                "lucid-policy-evaluation",
                "lucid-capacity-plans",
                *(name for part in installed_parts() for name in part.mlflow_experiments),
            }
        ),
        models=frozenset({"lucid-*"}),
        described=True,
        version_tags=frozenset({"hold_out_days", "held_out_end", "log_end", "tuned_*", "picked_*"}),
        model_tags=frozenset({"removed"}),
        born_with=frozenset(
            {
                "cluster",
                "policy",
                "content_sha256",
                "manifest_sha256",
                "simulated_profiles",
                "synthetic_logs",
            }
        ),
        aliases=frozenset({"challenger"}),
    ),
    JUDGE: Rights(
        experiments=frozenset({VERDICTS, STUDIES}),
        annotated=frozenset({RELEASES}),
        described=True,
        version_tags=frozenset({"verdict", "verdict_*", "judgement", "started_by"}),
    ),
    PUBLISH: Rights(
        experiments=frozenset({PUBLICATIONS}),
        version_tags=frozenset({"went_live", "turned_down", "rolled_back", "publication"}),
        model_tags=frozenset({"transition"}),
        aliases=frozenset({"champion", "previous"}),
        expires=True,
    ),
    UPKEEP: Rights(collects=True),
    SCHEDULE: Rights(reads_all=False),
    READ: Rights(),
}


def is_release_model(name: str) -> bool:
    """Whether a registered model holds releases."""
    return name == RELEASES or name.startswith(RELEASE_MODELS)


def is_among(name: str, patterns: frozenset[str]) -> bool:
    """Whether a name is one of those that may hold `*`."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
