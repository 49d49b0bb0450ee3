"""Names are bucketed by distance, the same for any order of names, and looked up without the learner."""

import json
import string
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_models.duration.bucket_learning import learn_buckets
from lucid_models.duration.features import DurationFeatureSettings
from lucid_models.duration.level_search import LevelSearchSettings, choose_levels
from lucid_models.duration.name_buckets import NameBuckets, levenshtein, name_family
from lucid_models.model_format import CorruptModelError

STEMS = ("resnet", "bert", "gpt", "yolo", "unet", "lstm", "vgg", "swin", "dcgan", "wavenet")
words = st.text(alphabet="abcde_#-é", max_size=40)
long_words = st.text(alphabet="ab_", min_size=60, max_size=70)  # around the bits of a word


def typed(stems: int, names: int, seed: int = 0) -> list[str]:
    """Names that people typed: a stem each, with up to three letters changed and a number."""
    rng = np.random.default_rng(seed)
    letters = list(string.ascii_lowercase)
    base = [f"{STEMS[i % len(STEMS)]}_{''.join(rng.choice(letters, 10))}" for i in range(stems)]
    result = []
    for number in range(names):
        name = list(base[number % stems])
        for _ in range(rng.integers(0, 4)):
            name[rng.integers(len(name))] = str(rng.choice(letters))
        result.append("".join(name) + str(rng.integers(1_000)))
    return result


@settings(max_examples=150, deadline=None)
@given(one=words, other=words)
def test_the_distance_is_levenshteins(one: str, other: str) -> None:
    from rapidfuzz.distance import Levenshtein

    assert levenshtein(one, other) == Levenshtein.distance(one, other)


@settings(max_examples=120, deadline=None)
@given(exemplars=st.lists(words | long_words, min_size=1, max_size=12, unique=True), name=words | long_words)
def test_the_nearest_exemplar_is_found_among_all(exemplars: list[str], name: str) -> None:
    from rapidfuzz.distance import Levenshtein

    family = name_family(name)
    distances = [Levenshtein.normalized_distance(family, one) for one in exemplars]
    best = min(distances)
    expected = exemplars[distances.index(best)] if best <= 0.5 else None
    assert NameBuckets(exemplars, 0.5).bucket_of(name) == expected


def test_names_typed_alike_share_a_bucket_and_a_new_one_has_none() -> None:
    names = typed(12, 600)
    buckets = learn_buckets(names)
    found = [buckets.bucket_of(name) for name in names]
    assert len(set(found)) == 12
    assert all(len({found[i] for i in range(stem, 600, 12)}) == 1 for stem in range(12))
    assert buckets.bucket_of("0123456789-completely-else-zzzzzzzzzzzzzzz") is None
    assert buckets.bucket_of("(no name)") is None


def test_the_order_of_names_does_not_matter() -> None:
    names = typed(8, 300)
    assert learn_buckets(names).exemplars == learn_buckets(names[::-1]).exemplars


def test_buckets_are_data() -> None:
    buckets = learn_buckets(typed(8, 300))
    twin = NameBuckets.from_data(json.loads(json.dumps(buckets.to_data())))
    assert [twin.bucket_of(name) for name in typed(8, 50, seed=1)] == [
        buckets.bucket_of(name) for name in typed(8, 50, seed=1)
    ]
    with pytest.raises(CorruptModelError, match="128 letters"):
        NameBuckets.from_data({"exemplars": ["x" * 200], "most_distance": 0.5})


def test_a_sample_of_many_names_agrees_with_all_of_them() -> None:
    """Affinity propagation of all names against a quarter of them and nearest exemplars for the rest."""
    from sklearn.metrics import adjusted_rand_score

    names = typed(40, 1_200)
    whole = learn_buckets(names, most_at_once=1_200)
    sampled = learn_buckets(names, most_at_once=300)
    labels = [[buckets.bucket_of(name) or "" for name in names] for buckets in (whole, sampled)]
    assert adjusted_rand_score(*labels) >= 0.9


@pytest.mark.thorough("full size")
def test_a_hundred_thousand_names_take_seconds() -> None:
    names = typed(60, 100_000)
    began = time.process_time()
    buckets = learn_buckets(names)
    assert time.process_time() - began < 20.0
    assert 40 <= len(buckets.exemplars) <= 120


def made_log(names: list[str], kind: np.ndarray) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    jobs = len(names)
    submit = pd.Timestamp("2021-01-04", tz="UTC") + pd.to_timedelta(np.arange(jobs) * 120, unit="s")
    return pd.DataFrame(
        {
            "job_id": [str(number) for number in range(jobs)],
            "user": [f"u{number}" for number in rng.integers(0, 400, jobs)],
            "name": names,
            "gpus": 1,
            "submit_time": submit,
            "duration_s": np.exp(3.0 + 0.3 * kind + rng.normal(0, 0.2, jobs)),
        }
    )


@pytest.mark.slow
def test_buckets_are_kept_where_they_help_and_only_there() -> None:
    names = typed(12, 2_400)
    features, search = DurationFeatureSettings(), LevelSearchSettings()
    helped = choose_levels(made_log(names, np.arange(2_400) % 12), features, search)
    assert helped.buckets is not None
    assert helped.record["chosen"][0]["level"] == "bucket"
    assert helped.record["error"] < 0.8 * helped.record["error_of_all_jobs"]
    noise = np.random.default_rng(5).integers(0, 12, 2_400)
    useless = choose_levels(made_log(names, noise), features, search)
    assert useless.buckets is None
