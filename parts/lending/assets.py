"""What `ingest_logs` hands to `forecast_inference_load`."""

from airflow.sdk import Asset

INFERENCE_LOAD_TABLE = Asset(
    name="inference_load_table", uri="lucid://lake/inference_load", group="cluster_logs"
)
