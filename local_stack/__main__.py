"""`python -m local_stack up | down | status`: Airflow and MLflow on this machine."""

import sys

from local_stack.stack import main

sys.exit(main())
