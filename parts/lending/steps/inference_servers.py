"""How many inference servers the load needs, alone and while idle ones are lent: no replay of jobs is needed.

Lending goes by the load as it was when a bin began, that of the newest finished bin, with a headroom that is
never lent (Lyra, section 6). With S servers of which d were busy, S - d - headroom are lent; the next bin is
short when it needs more than what is left, or more than S.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from parts.lending.replay.inference_service import InferenceService
from parts.lending.replay.orchestrator import share_of_servers, shares_of_servers
from pipeline.planning.questions import PlanAnswer

POOL = "inference"
MOST_TIMES_THE_PRESENT = 4  # beyond which no size is tried


def servers_of_inference(
    service: InferenceService, *, headroom: float, most_short_pct: float, lending: bool
) -> list[PlanAnswer]:
    """Ask for the least inference servers that are short in at most so many per cent of its bins.

    With `lending` also while servers are lent. `present` servers are those that the load was measured on.
    """
    demand = shares_of_servers(np.asarray(service.usage), service.servers)
    question = f"How many inference servers keep bins short of servers at {most_short_pct:g} % or less?"

    def alone(servers: int) -> float:
        return 100.0 * float((demand > servers).mean())

    def lent(servers: int) -> float:
        needed = demand[:-1] + share_of_servers(headroom, servers)
        return 100.0 * float((demand[1:] > np.minimum(needed, servers)).mean())

    answers = [_answer("none lent", question, alone, service.servers, most_short_pct)]
    if lending and demand.size > 1:
        words = f"servers on loan, headroom {100 * headroom:g} %"
        answers.append(_answer(words, question, lent, service.servers, most_short_pct))
    return answers


def _answer(
    variant: str, question: str, short_pct: Callable[[int], float], present: int, most_short_pct: float
) -> PlanAnswer:
    sizes = range(1, MOST_TIMES_THE_PRESENT * max(1, present) + 1)
    least = next((size for size in sizes if short_pct(size) <= most_short_pct), None)
    now_pct = short_pct(present)
    figures: Mapping[str, Any] = {
        "nodes": least,
        "present_nodes": present,
        "change_nodes": None if least is None else least - present,
        "short_pct": None if least is None else short_pct(least),
        "one_fewer_short_pct": None if least is None or least == 1 else short_pct(least - 1),
        "present_short_pct": now_pct,
    }
    if least is None:
        sentence = (
            f"None up to {sizes[-1]:,}: on {present:,} servers {now_pct:.2f} % of the bins are short. "
            "A larger headroom keeps more of them."
        )
        return PlanAnswer("inference", POOL, variant, question, sentence, figures)
    sentence = (
        f"{least:,} servers ({least - present:+,}): {short_pct(least):.2f} % of the bins are short; "
        f"on the {present:,} of now {now_pct:.2f} %."
    )
    return PlanAnswer("inference", POOL, variant, question, sentence, figures)
