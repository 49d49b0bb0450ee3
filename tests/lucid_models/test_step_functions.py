"""Many features are looked up at once as each of their shape functions would be."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_models.bin_finder import bin_of
from lucid_models.duration.queue_rows import Readings, StepFunctions

NUMBERS = st.floats(-9, 9) | st.sampled_from([0.0, -0.0, 1.0, 2.0, np.inf, -np.inf, np.nan])
CUTS = st.lists(st.sampled_from([-3.0, -1.0, 0.0, 0.5, 1.0, 2.0, 7.0]), unique=True, max_size=5).map(
    lambda found: np.array(sorted(found))
)


@settings(max_examples=100, deadline=None)
@given(
    features=st.lists(st.tuples(st.lists(CUTS, max_size=2), st.none() | CUTS), min_size=1, max_size=4),
    values=st.lists(NUMBERS, min_size=1, max_size=12),
    later=NUMBERS,
)
def test_values_are_found_as_in_each_function(features, values, later):
    rng = np.random.default_rng(1)
    readings = [
        Readings([(cuts, rng.normal(size=cuts.size + 3)) for cuts in functions], pair_cuts)
        for functions, pair_cuts in features
    ]
    functions = StepFunctions(readings)
    at = np.broadcast_to(np.arange(len(readings))[:, None], (len(readings), len(values)))
    steps = functions.find(at, np.broadcast_to(values, at.shape))
    moved = functions.find(at, np.full(at.shape, later))
    for number, reading in enumerate(readings):
        found = [scores[bin_of(np.array(values), cuts)] for cuts, scores in reading.functions]
        np.testing.assert_allclose(functions.scores[steps[number]], np.sum(found, axis=0), atol=1e-12)
        if reading.pair_cuts is not None:
            expected = bin_of(np.array(values), reading.pair_cuts)
            assert functions.pair_bins[steps[number]].tolist() == expected.tolist()
    # A value has left its step when an edge says so, and never when it has not.
    left = (later < functions.low[steps]) | (later >= functions.high[steps])
    infinite = np.isinf(functions.high[moved]) & (later == np.inf)
    if not np.isnan(later):
        assert ((steps != moved) == left)[~infinite].all()
