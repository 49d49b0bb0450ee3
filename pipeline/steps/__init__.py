"""What the tasks of the DAGs call, a function each (`foundation/steps.py` says what a step is)."""
