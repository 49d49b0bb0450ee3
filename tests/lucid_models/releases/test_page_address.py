"""Everything that links to a release's page gets its address from one place."""

import pytest

from lucid_models.releases.page_address import AIRFLOW_URL_VARIABLES, release_page_url


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in AIRFLOW_URL_VARIABLES:
        monkeypatch.delenv(variable, raising=False)


def test_the_address_is_that_at_which_people_open_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert release_page_url("venus", 3) is None
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow:8080/")
    assert release_page_url("venus", 3) == "http://airflow:8080/plugin/lucid/releases/venus/3"
    monkeypatch.setenv("LUCID_AIRFLOW_URL", "https://mlops.example.org/airflow")
    assert release_page_url("venus", 3) == "https://mlops.example.org/airflow/plugin/lucid/releases/venus/3"


def test_what_is_no_web_address_is_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUCID_AIRFLOW_URL", "javascript:alert(1)")
    assert release_page_url("venus", 3) is None
    assert release_page_url("venus", 3, airflow_url="ftp://airflow") is None


def test_a_name_stays_one_part_of_the_path() -> None:
    url = release_page_url("a/../b?c#d", 3, airflow_url="http://airflow:8080")
    assert url == "http://airflow:8080/plugin/lucid/releases/a%2F..%2Fb%3Fc%23d/3"
