"""The DAGs as Airflow sees them."""

from tests.airflow_database import metadata_database as metadata_database
from tests.dags.conftest import dag_bag as dag_bag
from tests.dags.conftest import defaults as defaults
from tests.dags.conftest import parsed_dags as parsed_dags
