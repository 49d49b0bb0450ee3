"""Answers about waits in Airflow: what is trained for them, and what a form asks."""
