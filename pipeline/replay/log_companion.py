"""Companions that are made of a log: of its jobs, and of the moment at which it begins."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import pandas as pd

from simulator.scenario.companion import Companion
from simulator.workload.workload import Workload


class BesideLog(NamedTuple):
    """A companion, the jobs as they are beside it, and what is to be said of what it was made of.

    `estimated`: the jobs have estimates of their own now.
    """

    companion: Companion
    workload: Workload
    estimated: bool
    remarks: tuple[str, ...] = ()


class LogCompanion(ABC):
    """What makes a companion once the log has been read."""

    @abstractmethod
    def beside(self, workload: Workload, jobs: pd.DataFrame, origin: pd.Timestamp) -> BesideLog:
        """Return the companion of a replay with second 0 at `origin`.

        `jobs` is the job table, with all of its columns, that the workload was made of. Raises BadInputError
        for what cannot be.
        """
