"""Features of the wait model read in units that people know."""

import pytest

from lucid_models.explanation.axes import feature_axis


@pytest.mark.parametrize(
    ("name", "number", "label", "text"),
    [
        ("waited", 3.556302500767287, "time waited so far", "60 min"),
        ("usual_wait_of_account_and_partition", 0.0, "usual wait of account and partition", "1 s"),
    ],
)
def test_features_read_in_units_that_people_know(name: str, number: float, label: str, text: str) -> None:
    axis = feature_axis(name)
    assert axis.label == label
    assert axis.text(axis.value(number)) == text
    assert axis.number(axis.value(number)) == pytest.approx(number)
