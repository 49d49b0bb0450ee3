"""The Airflow plugin: hooks, operators and links over the packages."""
