"""The account of what was read of Slurm: keys that a declaration holds, and keys that it leaves out."""

from cluster_logs.site.left_out import listed
from cluster_logs.site.rules import Ignored, SlurmKey


class KeyAccount:
    """Keys as they come: each once, in their order."""

    def __init__(self) -> None:
        self._modelled: dict[str, None] = {}
        self._ignored: dict[str, tuple[dict[str, None], str]] = {}

    def modelled(self, *keys: str) -> None:
        """Keep the names of keys with values that a declaration holds."""
        self._modelled.update(dict.fromkeys(keys))

    def holds(self, key: SlurmKey) -> None:
        """Keep a key that a field holds; what a replay leaves out of it is reported with the field."""
        if not key.left_out or key.key == "Gres":
            self.modelled(key.key)

    def ignored(self, key: str, value: str, effect: str) -> None:
        """Keep a key that is left out and what that does to waits; it may come with many values."""
        values, _ = self._ignored.setdefault(key, ({}, effect))
        values[value] = None

    def modelled_keys(self) -> tuple[str, ...]:
        """Return the names of keys that a declaration holds."""
        return tuple(self._modelled)

    def ignored_keys(self) -> tuple[Ignored, ...]:
        """Return what is left out, a line a key."""
        return tuple(
            Ignored(key=key, value=listed(values), effect=effect)
            for key, (values, effect) in self._ignored.items()
        )
