"""Sleeping nodes in Airflow: what is trained for them."""
