"""Airflow and MLflow on one machine: configuration, processes, their supervisor.

`up` starts both on loopback for a `StackConfig` and `down` ends them, with nothing left behind; `status` says
what runs. `python -m local_stack` is the same from a shell.
"""

from typing import TYPE_CHECKING

from foundation.lazy_names import lazy_names

if TYPE_CHECKING:
    from local_stack.stack import down as down
    from local_stack.stack import status as status
    from local_stack.stack import up as up
    from local_stack.stack_config import StackConfig as StackConfig

__getattr__, __dir__ = lazy_names(__name__)
