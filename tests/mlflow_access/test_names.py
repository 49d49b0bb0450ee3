"""The table speaks of the experiments, models and tags by the names that the product gives them."""

import ast
from pathlib import Path

from lucid_models.releases import aliases, building, clusters, decisions, lifecycle, studies
from lucid_models.releases.manifest import RELEASE_PREFIX
from mlflow_access.roles import (
    JUDGE,
    PUBLISH,
    RELEASE_MODELS,
    RELEASES,
    ROLES,
    STUDIES,
    TRAIN,
    VERDICTS,
    is_among,
)

ROOT = Path(__file__).parents[2]


def test_names_are_the_products() -> None:
    assert RELEASE_MODELS == RELEASE_PREFIX
    assert building.RELEASE_EXPERIMENT == RELEASES
    assert (lifecycle.VALIDATION_EXPERIMENT, studies.STUDY_EXPERIMENT) == (VERDICTS, STUDIES)
    assert ROLES[PUBLISH].aliases == {aliases.CHAMPION, aliases.PREVIOUS}
    assert ROLES[TRAIN].aliases == {aliases.CHALLENGER}
    assert ROLES[PUBLISH].model_tags == {aliases.TRANSITION_TAG}
    assert ROLES[TRAIN].model_tags == {clusters.REMOVED_TAG}
    assert {decisions.WENT_LIVE, decisions.TURNED_DOWN} <= ROLES[PUBLISH].version_tags


def test_every_experiment_of_the_product_is_some_roles() -> None:
    """A constant `...EXPERIMENT` that no role writes would fail on an installation with accounts alone."""
    named = set()
    for package in ("lucid_models", "pipeline"):
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                    targets = [target.id for target in node.targets if isinstance(target, ast.Name)]
                    if any(target.endswith("EXPERIMENT") for target in targets):
                        named.add(str(node.value.value))
    assert len(named) > 8
    written = set().union(*(rights.experiments for rights in ROLES.values()))
    assert named <= written, "give them to a role in mlflow_access/roles.py"


def test_no_two_services_move_the_same() -> None:
    """What one part says, no other part can."""
    parts = [ROLES[role] for role in (TRAIN, JUDGE, PUBLISH)]
    for one in parts:
        for other in parts:
            if one is not other:
                assert not one.experiments & other.experiments
                assert not one.aliases & other.aliases
                assert not any(is_among(tag, other.version_tags) for tag in one.version_tags | one.born_with)
