import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_models.bin_finder import BinFinder, bin_of

FINITE = st.floats(-1e300, 1e300) | st.floats(-3, 3) | st.sampled_from([0.0, -0.0, 5e-324, 1e300, -1e300])


def checked(cuts: np.ndarray, values: np.ndarray) -> None:
    with np.errstate(all="raise", under="ignore"):
        found = BinFinder(cuts).of(values)
    assert np.array_equal(found, bin_of(values, cuts))


@settings(max_examples=150, deadline=None)
@given(
    cuts=st.lists(FINITE, unique=True, max_size=40).map(sorted).map(lambda found: np.unique(found)),
    others=st.lists(FINITE | st.sampled_from([np.nan, np.inf, -np.inf]), max_size=30),
    repeats=st.sampled_from([1, 100]),
)
def test_every_value_falls_into_its_bin(cuts: np.ndarray, others: list[float], repeats: int) -> None:
    cuts = cuts.astype(np.float64)
    values = np.concatenate([cuts, np.nextafter(cuts, np.inf), np.nextafter(cuts, -np.inf), others])
    checked(cuts, np.repeat(values, repeats))


@pytest.mark.parametrize("cuts", [0, 1, 3, 4, 5, 30, 125, 253, 5_000])
@pytest.mark.parametrize("kind", ["normal", "counts", "heavy", "close", "far"])
def test_learned_and_unlikely_cuts(cuts: int, kind: str) -> None:
    rng = np.random.default_rng(cuts)
    drawn = {
        "normal": lambda: rng.normal(size=cuts),
        "counts": lambda: np.arange(cuts) + 0.5,
        "heavy": lambda: np.exp(rng.normal(0, 20, cuts)),
        "close": lambda: 1.0 + np.arange(cuts) * np.finfo(float).eps,
        "far": lambda: np.linspace(-1e300, 1e300, cuts),
    }[kind]()
    edges = np.unique(drawn)
    noise = rng.normal(size=3_000) * (np.ptp(edges) if edges.size > 1 and kind != "far" else 1.0)
    values = np.concatenate(
        [edges, np.nextafter(edges, np.inf), noise, [np.nan, np.inf, -np.inf, 1.7e308, -1.7e308, 0.0]]
    )
    checked(edges, values)


def test_no_value_has_no_bin() -> None:
    assert BinFinder(np.array([1.0])).of(np.array([])).shape == (0,)
