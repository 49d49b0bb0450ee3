"""What MLflow's pages say of a release."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.markdown import markdown_text
from lucid_models.registry import Registry
from lucid_models.releases.lifecycle import build_release, record_verdict
from lucid_models.releases.manifest import release_name
from lucid_models.releases.registry_page import LONGEST, release_description, release_metrics
from lucid_models.tracking_run import six_digits

HOSTILE = "<img src=x onerror=alert(1)> [team](javascript:alert(1)) **bold** | `code` http://evil.example"


def policy(name: str, mean_jct_s: float, queuing_s: float) -> dict[str, Any]:
    return {
        "policy": name,
        "jobs": 4_413,
        "mean_jct_s": mean_jct_s,
        "mean_queuing_delay_s": queuing_s,
        "p999_queuing_delay_s": 29_064.0,
        "utilisation_pct": None,
    }


def constraint(
    name: str, unit: str, value: float | None, *, passed: bool | None, sentence: str = ""
) -> dict[str, Any]:
    return {"name": name, "unit": unit, "challenger": value, "passed": passed, "sentence": sentence}


def refused(sentence: str = "The virtual cluster waits too long.") -> dict[str, Any]:
    return {
        "approved": False,
        "sentence": "Refused: mean JCT is 3.25 h against 3.36 h under the site's order (-3.3 %).",
        "challenger": "challenger",
        "objective": {"change_pct": -3.347187522055104, "change_low_pct": None},
        "policies": [policy("challenger", 11_699.730524697547, 86.0), policy("site_order", 12_104.9, 495.3)],
        "constraints": [
            constraint("longest_wait", "s", 7_200.0, passed=True),
            constraint("unknown", "jobs", None, passed=None),
            constraint("fairness", "slowdown", 9.5, passed=False, sentence=sentence),
        ],
        "grade": {"sentence": "Not graded: the log does not say when jobs started."},
        "subject": {"window_start": "2017-12-06T00:00:00+00:00", "window_end": "2017-12-13T00:00:00+00:00"},
    }


def test_a_verdict_becomes_metrics_by_which_releases_compare() -> None:
    metrics = release_metrics(refused())
    assert list(metrics) == sorted(metrics)
    assert metrics["approved"] == 0.0
    assert metrics["constraints_that_block"] == 1.0
    assert metrics["jct/mean_h"] == pytest.approx(3.2499, abs=1e-4)
    assert metrics["jct/mean_change_against_site_order_pct"] == pytest.approx(-3.347, abs=1e-3)
    assert metrics["queuing/mean_h"] == pytest.approx(86 / 3_600)
    assert metrics["constraint/longest_wait_h"] == 2.0
    assert metrics["constraint/fairness"] == 9.5
    assert not {"constraint/unknown", "objective/change_low_pct", "utilisation/work_done_pct"} & set(metrics)
    assert release_metrics({"approved": True}) == {"approved": 1.0, "constraints_that_block": 0.0}


def test_a_description_tells_the_verdict_in_peoples_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUCID_AIRFLOW_URL", "https://airflow.example.org")
    text = release_description(None, ("philly", 2), refused(), "experiments/4/runs/abc")
    assert text.startswith("**Refused**: mean JCT is 3.25 h")
    assert "(https://airflow.example.org/plugin/lucid/releases/philly/2)" in text
    assert "(#/experiments/4/runs/abc)" in text
    assert "held-out days from 2017-12-06 to 2017-12-13, 4,413 jobs" in text
    assert "- mean job completion time: **3.25 h**; under the site's order 3.36 h (-3.3 %)" in text
    assert "- The virtual cluster waits too long." in text
    assert "- Not graded: the log does not say when jobs started." in text
    assert not re.search(r"\d\.\d{4}", text)


def test_what_comes_from_logs_is_only_ever_text() -> None:
    text = release_description(None, ("philly", 2), refused(HOSTILE))
    assert "<img" not in text
    assert "\\[team\\](javascript" in text
    assert "\\*\\*bold\\*\\*" in text
    assert "http://evil" not in text
    assert len(release_description(None, ("philly", 2), refused("x " * LONGEST))) <= LONGEST


@given(st.text())
def test_no_text_can_open_a_tag_a_link_or_a_code_span(text: str) -> None:
    shown = markdown_text(text)
    assert "\n" not in shown
    assert "<" not in shown
    assert not re.search(r"(?<!\\)(?:\\\\)*[`\[\]*_|]", shown)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_six_digits_say_a_number_as_it_is(value: float) -> None:
    assert six_digits(value) == pytest.approx(value, rel=1e-5, abs=1e-300)


def test_a_release_in_mlflow_tells_its_verdict_and_its_run_has_the_metrics(local_shop: Any) -> None:
    built = build_release(tracking_uri=local_shop.uri, cluster="small")
    registry, name = Registry(local_shop.uri), release_name("small")
    stored = registry.client.get_model_version(name, str(built.version))
    assert "Not judged yet" in stored.description
    assert "(#/models/lucid-duration/versions/2)" in stored.description
    assert registry.client.get_run(built.run_id).info.run_name == f"small release {built.version}"
    page = record_verdict(
        tracking_uri=local_shop.uri, cluster="small", version=built.version, verdict=refused()
    )
    stored = registry.client.get_model_version(name, str(built.version))
    assert stored.description.startswith("**Refused**")
    assert f"(#/{page})" in stored.description
    assert "(#/models/lucid-duration/versions/2)" in stored.description
    assert registry.run_metrics(built.run_id)["jct/mean_h"] == 3.24993
    assert registry.client.get_run(built.run_id).data.tags["mlflow.note.content"] == stored.description
    # Judged on other days since: every window that it was judged on stands in Compare, the last one last.
    windows = {"held_out_window": "2017-12-06 to 2017-12-13"}
    assert registry.client.get_run(built.run_id).data.params.items() >= windows.items()
    assert registry.client.get_run(page.split("/")[3].split("?")[0]).data.params == windows
    for end in ("2017-12-20", "2017-12-20", "2017-12-13"):
        again = refused() | {"subject": {**refused()["subject"], "window_end": f"{end}T00:00:00+00:00"}}
        record_verdict(tracking_uri=local_shop.uri, cluster="small", version=built.version, verdict=again)
    windows |= {
        "held_out_window_2": "2017-12-06 to 2017-12-20",
        "held_out_window_3": "2017-12-06 to 2017-12-13",
    }
    params = registry.client.get_run(built.run_id).data.params
    assert {name: value for name, value in params.items() if name.startswith("held_out_window")} == windows
    # Somebody deleted the run: the verdict is kept all the same.
    registry.client.delete_run(built.run_id)
    record_verdict(
        tracking_uri=local_shop.uri, cluster="small", version=built.version, verdict={"approved": True}
    )
    assert registry.version(name, built.version).tags["verdict"] == "approved"
