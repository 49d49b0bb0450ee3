"""Moves `champion` and `previous` together, so that a crash between the two leaves nothing wrong.

The releases of a cluster are versions of one registered model; its aliases say which of them counts. MLflow
sets one alias per call. The move is therefore written down first, as a tag of the registered model:

    1. tag `transition` = {"kind", "champion": new, "previous": old}
    2. champion -> new        (the only step that a scheduler sees)
    3. previous -> old
    4. the tag is deleted

Whoever moves next looks at the tag first (`settle`): when `champion` already is the new one, steps 3 and 4
are made up for; else nothing had happened yet and the tag is dropped. A scheduler reads one alias and
fetches one immutable version, so at no step can it see a mixture.

A move is decided for the release that is live then, and holds for that one alone: when another one went live
since, nothing moves (compare-and-set). Two publishers at once: MLflow has no such call, so the later write of
an alias wins, and the loser learns of it: each step checks that the tag is still its own and gives up when it
is not, and the last one that its release is live. `champion` is at every moment one whole, approved release.
`previous` may in the worst interleaving name a release that was champion before the last one; the Airflow DAG
allows one run at a time, which excludes it.
"""

import json
import uuid
from dataclasses import dataclass

from foundation import strict_json
from foundation.errors import ReleaseRefusedError
from lucid_models.registry import Registry

CHAMPION = "champion"
CHALLENGER = "challenger"
PREVIOUS = "previous"
TRANSITION_TAG = "transition"


@dataclass(frozen=True)
class Transition:
    """A move of `champion` that was begun."""

    kind: str
    champion: int
    previous: int | None
    token: str

    def to_text(self) -> str:
        """As the tag holds it."""
        return json.dumps(vars(self), sort_keys=True)


def pending_transition(registry: Registry, model: str) -> Transition | None:
    """The move that was begun and not finished, if any."""
    text = registry.model_tags(model).get(TRANSITION_TAG)
    if text is None:
        return None
    try:
        data = strict_json.loads(text)
        previous = data["previous"]
        return Transition(
            str(data["kind"]),
            int(data["champion"]),
            None if previous is None else int(previous),
            str(data["token"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ReleaseRefusedError(
            f"The tag {TRANSITION_TAG} of {model} is {text!r}, not a move of aliases.",
            remedy="Delete the tag in MLflow, then check the aliases champion and previous.",
        ) from error


def settle(registry: Registry, model: str) -> Transition | None:
    """Finish a move that was interrupted after `champion` moved, or forget it; returns the one finished."""
    begun = pending_transition(registry, model)
    if begun is None:
        return None
    reached = registry.aliases(model).get(CHAMPION) == begun.champion
    if reached and begun.previous is not None:
        registry.set_alias(model, PREVIOUS, begun.previous)
    registry.delete_model_tag(model, TRANSITION_TAG)
    return begun if reached else None


def move_champion(registry: Registry, model: str, *, kind: str, champion: int, previous: int | None) -> None:
    """Make `champion` the champion in place of `previous`, to which a rollback goes back; see the module's
    text.

    Raises ReleaseRefusedError when `previous` is no longer live, or another move began in between; the error
    says what is live then.
    """
    own = Transition(kind, champion, previous, uuid.uuid4().hex)
    registry.set_model_tag(model, TRANSITION_TAG, own.to_text())
    _still(registry, model, own)
    live = registry.aliases(model).get(CHAMPION)
    if live != previous:
        registry.delete_model_tag(model, TRANSITION_TAG)
        raise _overtaken(own, live)
    registry.set_alias(model, CHAMPION, champion)
    if previous is not None:
        _still(registry, model, own)
        registry.set_alias(model, PREVIOUS, previous)
    _still(registry, model, own)
    registry.delete_model_tag(model, TRANSITION_TAG)
    live = registry.aliases(model).get(CHAMPION)
    if live != champion:  # one that had looked before this move began wrote its alias late
        raise _overtaken(own, live)


def _still(registry: Registry, model: str, own: Transition) -> None:
    if pending_transition(registry, model) != own:
        raise _overtaken(own, registry.aliases(model).get(CHAMPION))


def _overtaken(own: Transition, live: int | None) -> ReleaseRefusedError:
    return ReleaseRefusedError(
        f"Another publication or rollback began while version {own.champion} was being made champion; "
        f"{'nothing' if live is None else f'release {live}'} is live.",
        remedy="See `lucid release list`, and try again if that is not what you want.",
    )
