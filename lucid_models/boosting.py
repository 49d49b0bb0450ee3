"""Trains additive models with interpret's Explainable Boosting Machine and hands them over as data.

What is common to the throughput and the duration model: numeric features only (categories are encoded by our
own causal statistics), validation bags made of whole blocks of time, a fixed seed, and a check that what was
learned is finite and near the targets (one loss is known to diverge on far outliers).

Large tables (`affordable`): the shapes are learned from a sample, one row at random out of every few that
follow one another in time; the weights of the bins, the intercept and the held-out scores are those of all
rows. Bags are boosted in threads, which changes no bit of the result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from lucid_models.additive_scorer import AdditiveScorer, Term
from lucid_models.bin_finder import BinFinder
from lucid_models.boosting_checks import DivergedError, check_scores, check_table, diverged

# The losses, and the targets that each is defined for.
OBJECTIVES: Mapping[str, str] = {
    "rmse": "any",
    "pseudo_huber": "any",
    "rmse_log": "any",
    "poisson_deviance": "not negative",
    "tweedie_deviance": "not negative",
    "gamma_deviance": "positive",
}
_LINKS = {loss: "identity" if loss in ("rmse", "pseudo_huber") else "log" for loss in OBJECTIVES}
Floats = NDArray[np.float64]
# The largest cut that a saved model may hold: beyond it values are not distinguished.
MAX_FEATURE = 1e300
# More bags than two steady a small table; on a larger one they only cost time in proportion.
MANY_ROWS = 40_000
# Shapes are learned from at most so many numbers (rows x features): a million rows of 20 features.
MAX_CELLS = 20_000_000
MAX_ROUNDS = 2_000
# Many rows smooth a shape by themselves; random rounds then only cost time.
MAX_SMOOTHING_ROUNDS = 100
MAX_BINS = 256
# Bins of a feature in a pair: a table of two of them stays small.
_PAIR_BINS = 32
_PAIR_SMOOTHING_ROUNDS = 100
# Below this many numbers threads wait for one another longer than they work.
_THREADED_CELLS = 400_000
_CHUNK_ROWS = 1 << 14
# Pseudo-Huber's delta, in so many of its own, where a training with it diverged.
_WIDER = (4.0, 16.0, 64.0)


@dataclass(frozen=True)
class BoostingSettings:
    """How an additive model is boosted; `max_rounds`, `max_bins` and `sample_rows` cap the cost.

    `smoothing_rounds`: so many first rounds cut at random places, which smooths the shapes of small tables.
    `patience_rounds`: after those it ends where so many rounds in a row gain nothing on validating rows.
    `sample_rows`: the shapes are learned from at most so many rows (None: from all). `pairs`: positions of
    features that share a shape function; without any, `interactions` asks for so many of the library's
    choice.
    """

    objective: str = "rmse"
    bags: int = 4
    max_rounds: int = 2_000
    max_bins: int = 256
    learning_rate: float = 0.04
    min_samples_leaf: int = 4
    interactions: int = 0
    pairs: tuple[tuple[int, int], ...] = ()
    seed: int = 0
    smoothing_rounds: int = 500
    patience_rounds: int = 100
    sample_rows: int | None = None

    def __post_init__(self) -> None:
        if self.loss not in OBJECTIVES:
            raise BadInputError(
                f"The objective {self.objective!r} is not known.",
                remedy=f"Choose one of: {', '.join(OBJECTIVES)} (parameters follow a colon).",
            )
        for name, low, high in (
            ("bags", 2, 1_000),
            ("max_rounds", 1, 1_000_000),
            ("max_bins", 4, 65_536),
            ("learning_rate", 1e-6, 1.0),
            ("min_samples_leaf", 1, 1_000_000_000),
            ("interactions", 0, 10_000),
            ("seed", 0, 2**31 - 1),
            ("smoothing_rounds", 0, 1_000_000),
            ("patience_rounds", 1, 1_000_000),
            ("sample_rows", 2, 1_000_000_000_000),
        ):
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise BadInputError(
                    f"Boosting setting {name} is {value}.", remedy=f"Choose from {low} to {high}."
                )

    @property
    def loss(self) -> str:
        """The objective without its parameters."""
        return self.objective.partition(":")[0]

    def to_data(self) -> dict[str, Any]:
        """Plain data, as JSON gives it back."""
        return {**asdict(self), "pairs": [list(pair) for pair in self.pairs]}


@dataclass(frozen=True)
class BoostedModel:
    """What training gives: the scorer, and each row's prediction by bags that did not train on it (link
    scale).
    """

    scorer: AdditiveScorer
    held_out_scores: NDArray[np.float64]


def affordable(settings: BoostingSettings, rows: int, features: int) -> BoostingSettings:
    """The settings that a table of this size can be boosted with in minutes: the one policy for large tables.

    Up to MANY_ROWS rows they stay. Above, at most two bags, MAX_ROUNDS rounds, MAX_SMOOTHING_ROUNDS of them
    random, and MAX_BINS bins; above MAX_CELLS numbers also a sample of rows. docs/benchmarks.md says what
    this costs in accuracy.
    """
    if rows <= MANY_ROWS:
        return settings
    most = max(MAX_CELLS // max(features, 1), MANY_ROWS)
    if settings.sample_rows is not None:
        most = min(most, settings.sample_rows)
    return replace(
        settings,
        bags=min(settings.bags, 2),
        max_rounds=min(settings.max_rounds, MAX_ROUNDS),
        max_bins=min(settings.max_bins, MAX_BINS),
        smoothing_rounds=min(settings.smoothing_rounds, MAX_SMOOTHING_ROUNDS),
        sample_rows=most if most < rows else None,
    )


def time_blocked_bags(blocks: NDArray[np.intp], bags: int) -> NDArray[np.int8]:
    """Bags for the EBM, shape (rows, bags): bag b validates (-1) on the blocks b, b + bags, ... and trains on
    the rest.

    `blocks` numbers the block of time of each row (a week, a day): rows of one block are never split between
    training and validation.
    """
    return _split(_validating_bag(blocks, bags), bags)


def sampled_rows(blocks: NDArray[np.intp], most: int, seed: int) -> NDArray[np.intp]:
    """At most `most` rows, ascending: one at random out of each of `most` runs of (nearly) equal length.

    A run follows the blocks of time and, within one, the order of the rows, so every stretch of time is
    represented as it is in the table. The same seed gives the same rows.
    """
    rows = blocks.size
    if rows <= most:
        return np.arange(rows)
    order = np.argsort(blocks, kind="stable")
    edges = np.arange(most + 1) * rows // most
    picked = edges[:-1] + (np.random.default_rng(seed).random(most) * np.diff(edges)).astype(np.intp)
    return np.sort(order[picked])


def boost(
    features: NDArray[np.floating[Any]],
    target: NDArray[np.float64],
    feature_names: Sequence[str],
    blocks: NDArray[np.intp],
    settings: BoostingSettings,
    weights: NDArray[np.float64] | None = None,
) -> BoostedModel:
    """Fit an EBM and return it as a scorer.

    Shapes: features (rows, len(feature_names)), NaN where unknown, in single precision if memory matters;
    target (rows,), blocks (rows,), weights (rows,): how much each row counts, > 0 (None: all the same).
    A training by pseudo-Huber that diverges is begun anew with a wider delta.
    Raises BadInputError for shapes or values that cannot be learned from, when there is too little to
    validate on and when training diverged.
    """
    matrix, target = np.asarray(features), np.asarray(target, dtype=np.float64)
    domain = OBJECTIVES[settings.loss]
    check_table(matrix, target, feature_names, blocks, weights, settings.pairs, settings.objective, domain)
    bags = min(settings.bags, np.unique(blocks).size)
    if bags < 2:
        raise BadInputError(
            f"{len(target)} rows in one block of time cannot be split into training and validation.",
            remedy="Give a longer history.",
        )
    settings = replace(settings, bags=bags)
    for tried in (settings, *_with_wider_deltas(settings)):
        try:
            return _boost(matrix, target, feature_names, blocks, tried, weights)
        except DivergedError as error:
            failure = error
    raise failure


def _boost(
    matrix: NDArray[np.floating[Any]],
    target: NDArray[np.float64],
    feature_names: Sequence[str],
    blocks: NDArray[np.intp],
    settings: BoostingSettings,
    weights: NDArray[np.float64] | None,
) -> BoostedModel:
    """`boost` of a table that was checked, which has a block for each bag."""
    bags = settings.bags
    bag_of_row = _validating_bag(blocks, bags)
    whole = settings.sample_rows is None or settings.sample_rows >= len(target)
    rows = slice(None) if whole else sampled_rows(blocks, settings.sample_rows or 0, settings.seed)
    start = _start(settings.loss, target[rows])
    model = fit_bags(
        matrix[rows],
        target[rows] - start if _LINKS[settings.loss] == "identity" else target[rows] / np.exp(start),
        feature_names,
        _split(bag_of_row[rows], bags),
        settings,
        None if weights is None else weights[rows],
    )
    scorer = scorer_of(model, feature_names)
    intercepts = np.ravel(np.asarray(model.bagged_intercept_, dtype=np.float64)) + start
    scorer = AdditiveScorer(scorer.feature_names, scorer.terms, scorer.intercept + start, scorer.link)
    tables = [np.asarray(scores, dtype=np.float64) for scores in model.bagged_scores_]
    counts, scores, held_out = _read_all(scorer, tables, intercepts, matrix, bag_of_row, weights)
    check_scores(scores, target, scorer.link)
    check_scores(held_out, target, scorer.link)
    if not whole:
        terms = [replace(term, weights=count) for term, count in zip(scorer.terms, counts, strict=True)]
        moved = _intercept_shift(settings.loss, target, scores, weights)
        scorer = AdditiveScorer(scorer.feature_names, terms, scorer.intercept + moved, scorer.link)
        held_out += moved
    return BoostedModel(scorer, held_out)


def _with_wider_deltas(settings: BoostingSettings) -> list[BoostingSettings]:
    """What to begin anew with after a training diverged: ever wider pseudo-Huber, none for another loss.

    Its curvature vanishes far from the targets, where Newton steps run away: between two groups of targets,
    for instance, where the median lies. The wider it is, the more it is like the squared error.
    """
    if settings.loss != "pseudo_huber":
        return []
    delta = float(settings.objective.partition("delta=")[2] or 1.0)
    objectives = [f"pseudo_huber:delta={delta * wider:g}" for wider in _WIDER]
    return [replace(settings, objective=objective) for objective in objectives]


def scorer_of(model: Any, feature_names: Sequence[str]) -> AdditiveScorer:
    """A fitted EBM over continuous features as an AdditiveScorer that gives equal predictions."""
    terms = []
    for features, scores, weights, spread in zip(
        model.term_features_,
        model.term_scores_,
        model.bin_weights_,
        model.standard_deviations_,
        strict=True,
    ):
        cuts = tuple(
            # A feature has one set of cuts for its own shape and, when coarser, one for its pairs.
            np.asarray(model.bins_[i][min(len(features), len(model.bins_[i])) - 1], dtype=np.float64)
            for i in features
        )
        terms.append(
            Term(
                tuple(features),
                cuts,
                np.asarray(scores, dtype=np.float64),
                np.asarray(weights, dtype=np.float64),
                _three_digits(np.asarray(spread, dtype=np.float64)),
            )
        )
    link = str(model.link_)
    if link not in ("identity", "log"):
        raise BadInputError(
            f"The link {link!r} cannot be saved.", remedy="Train with a regression objective."
        )
    intercept = float(np.ravel(model.intercept_)[0])
    if not np.isfinite(intercept) or not all(np.isfinite(term.scores).all() for term in terms):
        raise diverged("to infinite scores")
    return AdditiveScorer(list(feature_names), terms, intercept, link)


def _three_digits(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values to three significant digits: enough for a band in a plot, and a third of the bytes in a file."""
    return np.array([float(f"{value:.3g}") for value in values.flat]).reshape(values.shape)


def fit_bags(
    matrix: NDArray[Any],
    target: NDArray[np.float64],
    feature_names: Sequence[str],
    split: NDArray[np.int8],
    settings: BoostingSettings,
    weights: NDArray[np.float64] | None,
) -> Any:
    """The library's model of these rows.

    `split` has shape (rows, bags): -1 where a bag validates on a row, 1 where it trains on it.
    """
    import logging
    import warnings

    import joblib
    from interpret.glassbox import ExplainableBoostingRegressor

    # It logs every call into its library: hundreds of lines in a task's log that no person needs.
    logging.getLogger("interpret").setLevel(logging.WARNING)
    columns = np.ascontiguousarray(matrix, dtype=np.float64)
    if columns.size and np.nanmax(np.abs(columns), initial=0.0) > MAX_FEATURE:
        columns = np.clip(columns, -MAX_FEATURE, MAX_FEATURE)
    bags = split.shape[1]
    threads = min(bags, joblib.cpu_count()) if columns.size >= _THREADED_CELLS else 1
    model = ExplainableBoostingRegressor(
        feature_names=list(feature_names),
        feature_types=["continuous"] * len(feature_names),
        objective=settings.objective,
        interactions=[list(pair) for pair in settings.pairs] or settings.interactions,
        max_interaction_bins=_PAIR_BINS,
        outer_bags=bags,
        smoothing_rounds=settings.smoothing_rounds,
        interaction_smoothing_rounds=min(settings.smoothing_rounds, _PAIR_SMOOTHING_ROUNDS),
        early_stopping_rounds=settings.patience_rounds,
        max_rounds=settings.max_rounds,
        max_bins=settings.max_bins,
        learning_rate=settings.learning_rate,
        min_samples_leaf=settings.min_samples_leaf,
        max_delta_step=_largest_step(settings, target),
        n_jobs=threads,
        random_state=settings.seed,
    )
    with warnings.catch_warnings(), joblib.parallel_config(backend="threading"):
        # Missing values are meant to be there (no history yet) and our explanations show their score.
        warnings.filterwarnings("ignore", message="Missing values detected")
        warnings.filterwarnings("ignore", message="All-NaN slice encountered")
        model.fit(columns, target, sample_weight=weights, bags=split)
    _steady(model, columns, weights, settings.min_samples_leaf)
    return model


def _steady(model: Any, columns: Floats, weights: Floats | None, leaf: int) -> None:
    """Shrink what was learned of missing values from few rows, and of values from few rows beside many
    without: scores of a side of n rows are multiplied by max(1 - leaf / n, 0).

    The library gives missing values a leaf of their own, however few they are, so that `min_samples_leaf`
    holds on neither side of them. The factor is James and Stein's (1961) for n observations, `leaf` of which
    are worth the spread of what is shrunk. Of rows that count less than others as many count as they weigh.
    """
    missing = np.isnan(columns)
    relative = None if weights is None else weights / weights.mean()
    for place, features in enumerate(model.term_features_):
        if not missing[:, features].any():
            continue  # on the only side there is `min_samples_leaf` holds
        sides = np.zeros(len(columns), dtype=np.intp)
        for feature in features:
            sides = 2 * sides + ~missing[:, feature]
        rows = np.bincount(sides, minlength=2 ** len(features)).astype(np.float64)
        if relative is not None:
            rows = np.minimum(rows, np.bincount(sides, relative, minlength=rows.size))
        kept = np.maximum(1.0 - leaf / np.maximum(rows, 1.0), 0.0).reshape((2,) * len(features))
        table = model.term_scores_[place]
        factors = kept[np.ix_(*((np.arange(length) > 0).astype(np.intp) for length in table.shape))]
        table *= factors
        model.bagged_scores_[place] *= factors
        model.standard_deviations_[place] *= factors


def _start(loss: str, target: NDArray[np.float64]) -> float:
    """A first intercept, on the scale of the link.

    The library finds the intercept by Newton steps from zero, which run away where the curvature is small:
    pseudo-Huber's far from the target, a log link's far below it.
    """
    if loss == "pseudo_huber":
        return float(np.median(target))
    if _LINKS[loss] == "log":
        mean = float(target.mean())
        return float(np.log(mean)) if mean > 0 else 0.0
    return 0.0


def _largest_step(settings: BoostingSettings, target: NDArray[np.float64]) -> float:
    """Bound on one boosting step, on the scale of the link; 0: none.

    Pseudo-Huber's curvature vanishes far from the target, so a bin of few far rows would take a step of any
    size (seen: a score of 1e26). One spread of the target a step is more than any good one needs. With a log
    link the curvature is the prediction, and a bin of rows a thousand times the mean would be moved by
    e^1000; the way from the mean to the largest target is all that a step may need. The squared error needs
    no bound.
    """
    if settings.loss == "pseudo_huber":
        return max(1.0, float(np.std(target)))
    if _LINKS[settings.loss] == "log":
        return max(1.0, float(np.log(max(target.max() / target.mean(), 1.0)))) if target.mean() > 0 else 0.0
    return 0.0


def _validating_bag(blocks: NDArray[np.intp], bags: int) -> NDArray[np.intp]:
    """The bag that each row validates, shape (rows,)."""
    return np.asarray(np.unique(blocks, return_inverse=True)[1] % bags, dtype=np.intp)


def _split(bag_of_row: NDArray[np.intp], bags: int) -> NDArray[np.int8]:
    return np.where(bag_of_row[:, None] == np.arange(bags)[None, :], -1, 1).astype(np.int8)


def _read_all(
    scorer: AdditiveScorer,
    tables: Sequence[NDArray[np.float64]],
    intercepts: NDArray[np.float64],
    matrix: NDArray[Any],
    bag_of_row: NDArray[np.intp],
    weights: NDArray[np.float64] | None,
) -> tuple[list[NDArray[np.float64]], NDArray[np.float64], NDArray[np.float64]]:
    """Of all rows, in chunks: the weight in each bin of each term, the scores, and the scores by the bag that
    did not train on the row.

    `tables` holds each term's scores by bag, `intercepts` each bag's intercept.
    """
    counts = [np.zeros(term.scores.size) for term in scorer.terms]
    finders = [[BinFinder(cuts) for cuts in term.cuts] for term in scorer.terms]
    scores = np.full(len(matrix), scorer.intercept)
    held_out = intercepts[bag_of_row]
    for start in range(0, len(matrix), _CHUNK_ROWS):
        here = slice(start, start + _CHUNK_ROWS)
        columns, bag = np.ascontiguousarray(matrix[here].T, dtype=np.float64), bag_of_row[here]
        weight = None if weights is None else weights[here]
        for term, find, table, count in zip(scorer.terms, finders, tables, counts, strict=True):
            bins = tuple(one.of(columns[feature]) for one, feature in zip(find, term.features, strict=True))
            flat = np.ravel_multi_index(bins, term.scores.shape)
            count += np.bincount(flat, weight, minlength=count.size)
            scores[here] += term.scores.ravel()[flat]
            held_out[here] += table.reshape(len(table), -1)[bag, flat]
    shaped = [count.reshape(term.scores.shape) for count, term in zip(counts, scorer.terms, strict=True)]
    return shaped, scores, held_out


def _intercept_shift(
    loss: str,
    target: NDArray[np.float64],
    scores: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
) -> float:
    """What brings the intercept of a sample to that of all rows, where the loss says so in one step.

    The robust losses keep the sample's: a few far rows, which a sample may miss, do not move it.
    """
    if loss == "rmse":
        return float(np.average(target - scores, weights=weights))
    if loss == "gamma_deviance":
        return float(np.log(np.average(target * np.exp(-scores), weights=weights)))
    if loss == "poisson_deviance":
        total = np.average(target, weights=weights)
        return float(np.log(total / np.average(np.exp(scores), weights=weights))) if total > 0 else 0.0
    return 0.0
