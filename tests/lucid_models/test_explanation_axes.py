import pytest

from lucid_models.explanation.axes import feature_axis


@pytest.mark.parametrize(
    ("name", "number", "label", "text"),
    [
        ("log_gpus", 2.1972245773362196, "GPUs", "8"),
        ("user_name:mean", 8.1886891244442, "usual run time of user x name", "60 min"),
        ("virtual_cluster:log_running", 1.6094379124341003, "jobs running of virtual cluster", "4"),
        ("user:log_since_submission", 4.110873864173311, "time since the last submission of user", "60 s"),
        ("all:soft_mean", 0.0, "run time lately of all jobs", "1 s"),
        ("hour", 13.5, "hour of the day", "13.5"),
        ("day_of_week", 4.0, "day of the week", "Fri"),
        ("log_lag_5", 0.6931471805599453, "5 bins before", "x 2"),
        ("log_weeks_at_level_18_bins", 0.0, "pattern of the weeks, at the level of 18 bins", "x 1"),
        ("log_level", 1.0986122886681098, "level of the last day and week", "2"),
        ("gpu_util_pct", 96.0, "GPU utilisation (%)", "96"),
        ("amp", 1.0, "mixed precision", "yes"),
    ],
)
def test_features_read_in_units_that_people_know(name: str, number: float, label: str, text: str) -> None:
    axis = feature_axis(name)
    assert axis.label == label
    assert axis.text(axis.value(number)) == text
    assert axis.number(axis.value(number)) == pytest.approx(number)
