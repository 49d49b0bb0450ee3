"""The pages of this product inside Airflow: what the API server serves for them, and their JavaScript."""
