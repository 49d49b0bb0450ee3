"""Airflow and MLflow on one machine: configuration, processes, their supervisor."""
