"""The DAGs that installed parts bring, each a module of its part.

Airflow reads DAGs from the variables of this file, so each becomes one, by its id. The file is not called
parts.py: Airflow puts this folder on Python's path, where a module `parts` would hide the parts themselves.
"""

from airflow.sdk import DAG

from lucid_airflow.dags_of_parts import dags_of_parts

dags: dict[str, DAG] = dags_of_parts()
globals().update(dags)
