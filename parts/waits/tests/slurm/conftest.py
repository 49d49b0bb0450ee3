"""The session's private Slurm."""

from tests.slurm.conftest import running_slurm as running_slurm
from tests.slurm.conftest import slurm as slurm
