"""The step that announces temperatures."""

from foundation.site import Site
from foundation.steps import Done


def announce_heat(*, site: Site) -> Done:
    """Say that there are temperatures of a cluster."""
    sentence = f"Temperatures of {site.cluster} are there."
    return Done({"cluster": site.cluster, "lake_uri": site.lake}, sentence)
