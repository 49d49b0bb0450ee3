"""The two definitions of when a job holds its GPUs."""

from enum import StrEnum


class UtilisationRule(StrEnum):
    """At which minutes a job holds its GPUs: start <= m < end, or floor(start) <= m <= floor(end).

    The second is that of Helios' published figures, which counts a job for up to a minute too long.
    """

    HALF_OPEN = "half-open"
    INCLUSIVE = "inclusive"
