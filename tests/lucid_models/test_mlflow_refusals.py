"""What MLflow will not do is told as a refusal with its remedy; an outage is one sentence of ours."""

from uuid import uuid4

import pytest

from foundation.errors import ServiceRefusedError, ServiceUnavailableError
from lucid_models.registry import Registry
from tests.fixtures import free_port


@pytest.fixture
def registry(mlflow_server: str) -> Registry:
    return Registry(mlflow_server)


@pytest.fixture
def prompt(registry: Registry) -> str:
    """A name that MLflow's prompts hold."""
    name = f"lucid-release-{uuid4().hex}"
    registry.client.register_prompt(name, "Be {{adjective}}.")
    return name


def test_a_deleted_experiment_is_named_with_both_ways_out(registry: Registry) -> None:
    name = f"lucid-{uuid4().hex}"
    number = registry.client.create_experiment(name)
    registry.client.delete_experiment(number)
    with pytest.raises(ServiceRefusedError, match=f"{name}.* is deleted") as told, registry.run(name, "any"):
        pass
    assert f"mlflow experiments restore --experiment-id {number}" in str(told.value)
    assert f"mlflow gc --experiment-ids {number}" in str(told.value)
    registry.client.restore_experiment(number)
    with registry.run(name, "any"):
        pass


def test_a_name_that_a_prompt_holds_is_no_outage(registry: Registry, prompt: str) -> None:
    with pytest.raises(
        ServiceRefusedError, match=f"keeps a prompt by the name '{prompt}'.*Delete that prompt"
    ):
        registry.ensure_model(prompt, "a model")


def test_a_version_that_is_listed_nowhere_is_not_taken_as_registered(registry: Registry, prompt: str) -> None:
    with registry.run(f"lucid-{uuid4().hex}", "any") as run:
        run.set_tag("any", "tag")
        with pytest.raises(ServiceRefusedError, match="version 2 was made, but is listed nowhere"):
            registry.create_version(prompt, run.artifact_uri("any"), run.run_id, {}, description="")
    assert registry.versions(prompt) == []


def test_what_mlflow_refuses_is_told_in_its_words_without_an_outage(registry: Registry) -> None:
    with pytest.raises(ServiceRefusedError, match="refused it: Invalid model name 'a/b'") as told:
        registry.ensure_model("a/b", "a model")
    assert "Check that it runs" not in str(told.value)


def test_an_mlflow_that_is_away_is_one_sentence_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    uri = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ServiceUnavailableError) as told:
        Registry(uri).aliases("lucid-any")
    assert str(told.value) == (
        f"MLflow on {uri} did not answer (Connection refused). "
        "Check that it runs (`make up`) and LUCID_TRACKING_URI."
    )
