"""The forecast of inference load in `retrain_models`."""

from lucid_airflow.part_forms import TrainedPart

TRAINING_FORM = TrainedPart({"inference_load": ("utc_offset_hours",)})
