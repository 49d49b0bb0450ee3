"""Servers on loan in `plan_capacity`."""

from airflow.sdk import Param

from lucid_airflow import form_fields
from lucid_airflow.part_forms import StudiedPart


def fields() -> dict[str, Param]:
    """What the form asks of them."""
    return {
        "loans": form_fields.switch(
            "Ask what loans save",
            "Where an inference load is known: the lake's of the cluster, or the file below.",
            default=True,
        ),
        "inference_uri": form_fields.place("Their load", "CSV time,usage. Empty: the lake's."),
        "inference_servers": form_fields.count(
            "Inference servers",
            "Where their load does not say how many there are.",
            default=None,
            least=1,
        ),
        "headroom": form_fields.number(
            "Headroom (share)",
            "Of the inference servers, which is never lent. Empty: the policy's, else 0.02.",
            default=None,
            least=0,
            most=1,
        ),
        "most_short_pct": form_fields.number(
            "Inference bins short of servers (%)",
            "At most so many of the inference servers that are asked for.",
            default=2.0,
            least=0,
            most=100,
        ),
    }


PLAN_FORM = StudiedPart(
    "Servers on loan from inference",
    fields,
    asked=("loans", "headroom", "most_short_pct"),
    of_log={"inference": "inference_uri", "inference_servers": "inference_servers"},
)
