import pytest

from foundation.errors import BadInputError
from lucid_airflow import settings
from lucid_airflow.links import DataDocsLink, MlflowLink, MonitoringLink, ReleaseLink, model_version_path


class Task:
    release_path = "plugin/lucid/releases/small/3"
    mlflow_path = model_version_path("lucid-release-small", 3)
    page = "lucid/data-docs/philly/jobs/index.html"


class Watch:
    page = "lucid/monitoring/philly/2017-12-01T0000Z-r3/index.html"


class Bare:
    release_path = None
    mlflow_path = None


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("1", True), ("OFF", False), (" no ", False)])
def test_approval_reads_words(monkeypatch, text, expected) -> None:
    monkeypatch.setenv("LUCID_REQUIRE_APPROVAL", text)
    assert settings.approval_required() is expected


def test_approval_is_on_unless_switched_off(monkeypatch) -> None:
    monkeypatch.delenv("LUCID_REQUIRE_APPROVAL", raising=False)
    assert settings.approval_required() is True
    monkeypatch.setenv("LUCID_REQUIRE_APPROVAL", "maybe")
    with pytest.raises(BadInputError, match="'maybe'"):
        settings.approval_required()


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
        == "http://127.0.0.1:5000/#/models/lucid-release-small/versions/3"
    )
    assert DataDocsLink().get_link(Task(), ti_key=None) == "/lucid/data-docs/philly/jobs/index.html"
    page = "/lucid/monitoring/philly/2017-12-01T0000Z-r3/index.html"
    assert MonitoringLink().get_link(Watch(), ti_key=None) == page
    assert MonitoringLink().get_link(Task(), ti_key=None) == ""
    assert MonitoringLink().get_link(Bare(), ti_key=None) == ""
    assert MlflowLink().get_link(Bare(), ti_key=None) == ""
    assert DataDocsLink().get_link(Bare(), ti_key=None) == ""


def test_the_release_of_a_task_is_a_page_at_airflows_address(monkeypatch) -> None:
    monkeypatch.setenv("LUCID_AIRFLOW_URL", "https://mlops.example.org/airflow/")
    link = ReleaseLink().get_link(Task(), ti_key=None)
    assert link == "https://mlops.example.org/airflow/plugin/lucid/releases/small/3"
    monkeypatch.delenv("LUCID_AIRFLOW_URL")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow:8080")
    assert ReleaseLink().get_link(Task(), ti_key=None) == "http://airflow:8080/plugin/lucid/releases/small/3"
    assert ReleaseLink().get_link(Bare(), ti_key=None) == ""


def test_pages_that_runs_leave_are_behind_the_prefix_of_airflows_address(monkeypatch) -> None:
    monkeypatch.delenv("LUCID_AIRFLOW_URL", raising=False)
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://site.example.org/airflow")
    link = DataDocsLink().get_link(Task(), ti_key=None)
    assert link == "/airflow/lucid/data-docs/philly/jobs/index.html"


def test_no_link_to_a_store_that_is_not_a_website(monkeypatch) -> None:
    monkeypatch.delenv("LUCID_MLFLOW_UI_URL", raising=False)
    monkeypatch.setenv("LUCID_TRACKING_URI", "sqlite:///mlflow.db")
    assert MlflowLink().get_link(Task(), ti_key=None) == ""


@pytest.mark.parametrize(
    ("text", "expected"), [(None, "@daily"), ("", "@daily"), ("None", None), ("0 6 * * 1", "0 6 * * 1")]
)
def test_monitoring_is_daily_unless_said_otherwise(monkeypatch, text, expected) -> None:
    if text is None:
        monkeypatch.delenv("LUCID_MONITOR_SCHEDULE", raising=False)
    else:
        monkeypatch.setenv("LUCID_MONITOR_SCHEDULE", text)
    assert settings.monitor_schedule() == expected


def test_retraining_by_the_clock_stands_beside_the_assets(monkeypatch) -> None:
    from lucid_airflow.assets import RETRAINING_REQUEST

    monkeypatch.delenv("LUCID_RETRAIN_SCHEDULE", raising=False)
    assert settings.retrain_schedule(RETRAINING_REQUEST) is RETRAINING_REQUEST
    monkeypatch.setenv("LUCID_RETRAIN_SCHEDULE", "@weekly")
    schedule = settings.retrain_schedule(RETRAINING_REQUEST)
    assert schedule.asset_condition == RETRAINING_REQUEST
    assert schedule.timetable.expression == "0 0 * * 0"


@pytest.mark.parametrize("text", ["psi_major=1", "[1]", "3"])
def test_thresholds_are_a_json_object(monkeypatch, text) -> None:
    monkeypatch.setenv("LUCID_MONITOR_SETTINGS", text)
    with pytest.raises(BadInputError, match="LUCID_MONITOR_SETTINGS"):
        settings.monitor_settings()
    monkeypatch.setenv("LUCID_MONITOR_SETTINGS", '{"psi_major": 0.5}')
    assert settings.monitor_settings() == {"psi_major": 0.5}


def test_a_dag_runs_with_its_assets_and_by_the_clock_where_one_is_set() -> None:
    from airflow.sdk import Asset

    asset = Asset("load")
    assert settings.with_clock("@daily", [asset]).timetable.expression in ("@daily", "0 0 * * *")
    assert settings.with_clock(None, [asset]) == [asset]
