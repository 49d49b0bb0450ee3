"""Who picks a point of a front: the form, a person in the UI, or nobody."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from parts.elastic.pareto.presented import choices_of, front_markdown, keep_page
from parts.elastic.tests.test_release_choice import FRONT
from pipeline.studies.store import write_json
from tests import airflow_home  # before the plugin is imported

assert airflow_home.HOME.is_dir()


class Context(dict[str, Any]):
    """What a task is run with, as far as the operator looks at it."""


@pytest.fixture
def study(tmp_path: Path) -> str:
    write_json(f"{tmp_path}/front.json", FRONT.to_data())
    return str(tmp_path)


def operator(study: str, pick: str | None = None) -> Any:
    from parts.elastic.operators import RequestChoiceOperator

    return RequestChoiceOperator(
        task_id="request_choice", subject="Which?", study_uri=study, cluster="small", pick=pick
    )


def answer(chosen: str) -> dict[str, Any]:
    return {
        "chosen_options": [chosen],
        "params_input": {},
        "responded_at": datetime(2026, 1, 1, tzinfo=UTC),
        "responded_by_user": {"id": "7", "name": "ada"},
    }


def test_the_answers_say_what_each_point_is_worth(study: str) -> None:
    labels = choices_of(FRONT)
    assert list(labels.values()) == ["c1", "c2", "c3"]
    assert next(iter(labels)) == "c1: avg JCT 1,000 s, p99 Pred_err 90 %"
    chosen = operator(study).execute_complete({}, answer("c3: avg JCT 1,500 s, p99 Pred_err 12.5 %"))
    assert chosen == {"front_id": "c3", "picked_by": {"id": "7", "name": "ada"}}


def test_what_the_form_picks_asks_nobody(study: str) -> None:
    assert operator(study, pick="c2").execute({}) == {"front_id": "c2"}


def test_a_point_that_the_front_does_not_have_fails_for_good(
    study: str, caplog: pytest.LogCaptureFixture
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match="UnknownNameError"):
        operator(study, pick="c99").execute({})
    (reason,) = [entry.message for entry in caplog.records if entry.levelname == "ERROR"]
    assert re.search(r"'c99'.*c1, c2, c3", reason)


def test_none_of_them_skips_what_follows(study: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk import BaseOperator

    task = operator(study)
    after = BaseOperator(task_id="build_release")
    skipped: list[Any] = []
    monkeypatch.setattr(task, "get_direct_relatives", lambda upstream: [after], raising=False)
    monkeypatch.setattr(task, "skip", lambda ti, tasks: skipped.extend(tasks))
    assert task.execute_complete({"ti": None, "task": task}, answer("None of them")) == {}
    assert skipped == [after]
    with pytest.raises(ValueError, match="not in"):
        task.execute_complete({"ti": None, "task": task}, answer("c4: better than all"))


def test_the_table_says_what_to_do_and_where_the_picture_is(tmp_path: Path) -> None:
    text = front_markdown(FRONT, page_url="/lucid/fronts/small/x/front.html", mlflow_url="http://m/#/r")
    assert "| point | avg JCT (s) | p99 Pred_err (%) | size classes |" in text
    assert "| c3 | 1,500 | 12.5 | 3 |" in text
    assert "[the interactive page](/lucid/fronts/small/x/front.html)" in text
    (tmp_path / "front.html").write_text("<p>c1</p>")
    pages = tmp_path / "pages"
    path = keep_page(
        FRONT, [f"{tmp_path}/front.csv", f"{tmp_path}/front.html"], pages_dir=pages, cluster="small"
    )
    assert path is not None
    assert (pages / path).read_text() == "<p>c1</p>"
    assert keep_page(FRONT, [f"{tmp_path}/front.csv"], pages_dir=pages, cluster="small") is None
