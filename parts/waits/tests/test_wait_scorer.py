"""The saved wait model: the same answers after saving, by partitions' names, and no file of another make."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cluster_logs.queue_log import QueueLog
from foundation.errors import BadInputError
from lucid_models.model_format import CorruptModelError, FormatVersionError, save_model
from lucid_models.scoring import load_scorer
from lucid_models.serving_frames import score_frame
from parts.waits.model.answers import waits_now
from parts.waits.model.model import WaitModel
from parts.waits.model.queue_frame import write_queue_frame
from parts.waits.model.queue_moment import QueueMoment
from parts.waits.model.scorer import WaitScorer
from parts.waits.model.usual_waits import USUAL_WAIT, leaning

Waiting = tuple[QueueMoment, list[str]]


def test_a_saved_model_answers_to_the_bit_as_the_fitted_one(
    wait_model: WaitModel, waiting_queue: Waiting, tmp_path: Path
) -> None:
    save_model(wait_model.to_data(), tmp_path / "waits.json")
    scorer = load_scorer(tmp_path / "waits.json", kind="waits")
    assert isinstance(scorer, WaitScorer)
    queue, partitions = waiting_queue
    answers = scorer.forecast(queue, partitions)
    np.testing.assert_array_equal(answers, wait_model.predict(queue, partitions))
    assert answers.shape == (queue.waiting["submit_s"].size, 2)
    assert (answers[:, 0] <= answers[:, 1]).all()


def test_offsets_go_with_the_name_of_a_partition(wait_model: WaitModel, waiting_queue: Waiting) -> None:
    scorer = wait_model.scorer
    assert set(scorer.offsets.by_partition) == {"cpu", "gpu"}
    row = scorer.features.matrix(waiting_queue[0])[:1].repeat(3, axis=0)
    waits_s = scorer.forecast_rows(row, ["cpu", "gpu", "new"])
    usual = row[:, scorer.features.names.index(USUAL_WAIT)]
    said = np.log10(waits_s + 1) - leaning(scorer.additive.predict(row), usual)[:, None]
    offsets = [*scorer.offsets.by_partition.values(), scorer.offsets.of_all]
    np.testing.assert_allclose(said, offsets, atol=1e-9)
    with pytest.raises(BadInputError, match="1 partitions were named for 3"):
        scorer.forecast_rows(row, ["cpu"])


def test_what_explains_a_forecast_adds_up_to_it(wait_model: WaitModel, waiting_queue: Waiting) -> None:
    scorer = wait_model.scorer
    rows = scorer.features.matrix(waiting_queue[0])
    usual = rows[:, scorer.features.names.index(USUAL_WAIT)]
    assert np.isfinite(usual).any()
    for values, wait in list(zip(rows, usual, strict=True))[:40]:
        explained = wait_model.explain_local(values.tolist(), "cpu")
        said = scorer.additive.predict(values[None])
        assert explained["score"] == pytest.approx(leaning(said, np.array([wait]))[0])
        assert explained["score"] == pytest.approx(
            explained["intercept"] + sum(term["contribution"] for term in explained["terms"])
        )


def test_a_table_of_the_queue_gives_the_same_answers(
    wait_model: WaitModel, waiting_queue: Waiting, queue_log: QueueLog
) -> None:
    queue, partitions = waiting_queue
    table = write_queue_frame(queue, queue_log, most=1_000_000)
    waiting = len(partitions)
    scored = score_frame(wait_model.scorer, pd.concat([table[waiting:], table[:waiting]])).loc[table.index]
    np.testing.assert_allclose(scored.to_numpy()[:waiting], wait_model.predict(queue, partitions), rtol=1e-9)
    assert (scored.iloc[waiting:] == 0).all(axis=None)
    with pytest.raises(BadInputError, match="2 moments"):
        score_frame(wait_model.scorer, table.assign(moment_s=np.arange(len(table)) % 2.0))


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("levels", [0.5, 0.95], "levels"),
        ("partitions", ["cpu"], "offsets"),
        ("offsets_of_all", [0.1], "offsets_of_all"),
        ("features", {"version": 1, "site_columns": ["usage"]}, "features"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    wait_model: WaitModel, field: str, value: object, says: str
) -> None:
    document = json.loads(json.dumps(wait_model.to_data()))
    document["model"][field] = value
    with pytest.raises(CorruptModelError, match=says):
        WaitScorer.from_data(document)


def test_features_of_another_program_are_refused(wait_model: WaitModel) -> None:
    document = json.loads(json.dumps(wait_model.to_data()))
    document["model"]["features"]["version"] = 99
    with pytest.raises(FormatVersionError, match="Train the wait model again"):
        WaitScorer.from_data(document)


def test_the_newest_snapshot_is_answered_job_by_job(
    wait_model: WaitModel, waiting_queue: Waiting, queue_log: QueueLog
) -> None:
    answers = waits_now(wait_model.scorer, queue_log)
    assert len({answer.job_id for answer in answers}) == len(answers) == len(waiting_queue[1])
    assert [answer.p50_s for answer in answers] == sorted(wait_model.predict(*waiting_queue)[:, 0])
    submitted = dict(zip(queue_log.jobs["job_id"], queue_log.jobs["submit_s"], strict=True))
    now = waiting_queue[0].moment_s
    assert all(answer.waited_s == now - submitted[answer.job_id] for answer in answers)


def test_why_one_job_waits_is_said_in_words(wait_model: WaitModel, waiting_queue: Waiting) -> None:
    queue, partitions = waiting_queue
    row = wait_model.scorer.features.matrix(queue)[0].tolist()
    local = wait_model.explain_local(row, partitions[0])
    assert local["prediction"] == wait_model.predict(queue, partitions)[0, 0]
    assert local["reason"].startswith("Learned from the queue: goes on waiting ")
