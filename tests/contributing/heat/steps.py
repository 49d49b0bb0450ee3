"""The step that announces temperatures."""

from foundation.steps import Done


def announce_heat(*, lake_uri: str, cluster: str) -> Done:
    """Say that there are temperatures of a cluster."""
    return Done({"cluster": cluster, "lake_uri": lake_uri}, f"Temperatures of {cluster} are there.")
