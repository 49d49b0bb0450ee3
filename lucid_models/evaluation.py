"""The evaluations of the three models, and what they measure, under one name."""

from lucid_models.duration_evaluation import evaluate_duration as evaluate_duration
from lucid_models.evaluation_measures import duration_metrics as duration_metrics
from lucid_models.evaluation_measures import r_squared as r_squared
from lucid_models.packing_evaluation import evaluate_packing as evaluate_packing
from lucid_models.throughput_evaluation import evaluate_throughput as evaluate_throughput
from lucid_models.throughput_evaluation import read_throughput_csv as read_throughput_csv
