"""The table of services: each place that it names exists, each model is one of the catalogue."""

import re
from pathlib import Path

import pytest

from lucid_models.catalogue import catalogue
from lucid_models.releases.manifest import MODEL_KINDS
from pipeline.services import ORCHESTRATOR, SERVICES, UPDATE_ENGINE, learned_kinds, resolved
from pipeline.training.model_training import MODELS, OPTIONAL_MODELS
from simulator.policies.registry import policy_class

ROOT = Path(__file__).resolve().parents[2]
PLACES = {place for service in SERVICES.values() for place in service.places} | {ORCHESTRATOR, *UPDATE_ENGINE}


@pytest.mark.parametrize("place", sorted(PLACES))
def test_every_place_exists_and_can_be_called(place: str) -> None:
    assert callable(resolved(place))


def test_a_place_that_is_not_there_is_an_error() -> None:
    with pytest.raises(AttributeError):
        resolved("pipeline.services:nothing")
    with pytest.raises(ImportError):
        resolved("pipeline.nowhere:nothing")


def test_what_services_learn_is_what_can_be_trained() -> None:
    assert (*MODELS, *OPTIONAL_MODELS) == learned_kinds()
    assert set(learned_kinds()) <= set(catalogue())
    # A release holds what the order of jobs is learned from.
    assert MODELS == MODEL_KINDS == SERVICES["lucid"].models


def test_the_form_of_the_dag_offers_the_models_that_a_release_needs() -> None:
    dag = (ROOT / "dags" / "retrain_models.py").read_text(encoding="utf-8")
    listed = re.search(r"^MODELS = \{(.*?)^\}", dag, re.MULTILINE | re.DOTALL)
    assert listed is not None
    offered = re.findall(r'^    "(\w+)":', listed[1], re.MULTILINE)
    assert set(MODELS) <= set(offered) <= set(learned_kinds())


def test_policies_are_found_by_the_services_names() -> None:
    for name in ("lucid", "qssf"):
        assert resolved(SERVICES[name].decides_by) is policy_class(name)
