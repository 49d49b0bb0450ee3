"""Servers on loan in Airflow: the forecast of inference load."""
