import pytest

from cluster_logs.errors import BadInputError
from lucid_airflow import settings
from lucid_airflow.links import DataDocsLink, MlflowLink, model_version_path


class Task:
    mlflow_path = model_version_path("lucid-release", 3)
    data_docs_path = "philly/jobs/index.html"


class Bare:
    mlflow_path = None


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("1", True), ("OFF", False), (" no ", False)])
def test_approval_reads_words(monkeypatch, text, expected) -> None:
    monkeypatch.setenv("LUCID_REQUIRE_APPROVAL", text)
    assert settings.approval_required_by_default() is expected


def test_approval_is_on_unless_switched_off(monkeypatch) -> None:
    monkeypatch.delenv("LUCID_REQUIRE_APPROVAL", raising=False)
    assert settings.approval_required_by_default() is True
    monkeypatch.setenv("LUCID_REQUIRE_APPROVAL", "maybe")
    with pytest.raises(BadInputError, match="'maybe'"):
        settings.approval_required_by_default()


def test_a_browser_may_need_another_address(monkeypatch) -> None:
    monkeypatch.setenv("LUCID_TRACKING_URI", "http://mlflow:5000/")
    assert settings.mlflow_ui_url() == "http://mlflow:5000"
    monkeypatch.setenv("LUCID_MLFLOW_UI_URL", "https://models.example.org")
    assert settings.mlflow_ui_url() == "https://models.example.org"


def test_links(monkeypatch) -> None:
    monkeypatch.delenv("LUCID_MLFLOW_UI_URL", raising=False)
    monkeypatch.setenv("LUCID_TRACKING_URI", "http://127.0.0.1:5000")
    assert (
        MlflowLink().get_link(Task(), ti_key=None)
        == "http://127.0.0.1:5000/#/models/lucid-release/versions/3"
    )
    assert DataDocsLink().get_link(Task(), ti_key=None) == "/lucid/data-docs/philly/jobs/index.html"
    assert MlflowLink().get_link(Bare(), ti_key=None) == ""
    assert DataDocsLink().get_link(Bare(), ti_key=None) == ""


def test_no_link_to_a_store_that_is_not_a_website(monkeypatch) -> None:
    monkeypatch.delenv("LUCID_MLFLOW_UI_URL", raising=False)
    monkeypatch.setenv("LUCID_TRACKING_URI", "sqlite:///mlflow.db")
    assert MlflowLink().get_link(Task(), ti_key=None) == ""
