"""Nodes that sleep in `plan_capacity` and `evaluate_policies`."""

from airflow.sdk import Param

from lucid_airflow import form_fields
from lucid_airflow.part_forms import StudiedPart


def _fields(example: str) -> dict[str, Param]:
    return {"node_sleep": form_fields.values("Nodes that sleep", "Values to try beside all awake.", example)}


def in_plans() -> dict[str, Param]:
    """What a plan is asked of them."""
    return _fields('{"buffer_nodes": [5, 20], "boot_s": 300}')


def in_sweeps() -> dict[str, Param]:
    """What a sweep is asked of them."""
    return _fields('{"buffer_nodes": [1, 5], "boot_s": 300}')


PLAN_FORM = StudiedPart("Nodes that sleep", in_plans, asked=("node_sleep",))
SWEEP_FORM = StudiedPart("Nodes that sleep", in_sweeps, asked=("node_sleep",))
