"""The forecast of busy nodes in `retrain_models`."""

from lucid_airflow import form_fields
from lucid_airflow.part_forms import TrainedPart

TRAINING_FORM = TrainedPart(
    {"node_demand": ("near_bins", "utc_offset_hours")},
    rare=lambda: {
        "near_bins": form_fields.count(
            "Forecast of busy nodes (bins)",
            "How many bins of ten minutes it looks ahead.",
            default=30,
            least=1,
            most=1_008,
        )
    },
)
