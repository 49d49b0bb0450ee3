"""A job that is scored alone has the score that it has in its queue, to the last bit and on every Python."""

import numpy as np

from lucid_models.additive_scorer import AdditiveScorer, Term


def test_one_row_scores_as_many_do() -> None:
    rng = np.random.default_rng(5)
    cuts = np.array([-0.5, 0.5])
    terms = [
        Term((feature,), (cuts,), rng.normal(0.0, 10.0 ** rng.integers(-6, 6), 5), np.ones(5))
        for feature in range(40)
    ]
    scorer = AdditiveScorer([f"x{feature}" for feature in range(40)], terms, intercept=0.1)
    rows = rng.normal(0.0, 1.0, (200, 40))
    assert [scorer.score_one(row) for row in rows.tolist()] == scorer.score(rows).tolist()
