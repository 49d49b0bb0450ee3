"""What the work on one cluster is about: its data, its models, its name, and where progress is shown."""

from dataclasses import dataclass, replace

from foundation.progress import Progress, silent


@dataclass(frozen=True)
class Site:
    """A cluster, and where its data and its models are kept.

    - `lake`: root URI of the lake with its tables.
    - `registry`: address of MLflow, with its models and releases.
    - `cluster`: its name in both. Empty: none is named, and the only one there is meant, where a function
      says so.
    - `progress`: is called as the work goes on.

    A function says what it does with a lake or a registry; what it does not use may be empty.
    """

    lake: str = ""
    registry: str = ""
    cluster: str = ""
    progress: Progress = silent

    def of(self, cluster: str) -> "Site":
        """Return the same for another cluster of the lake and the registry."""
        return replace(self, cluster=cluster)
