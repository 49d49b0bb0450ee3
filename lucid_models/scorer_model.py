"""A model with a scorer as its learned part, which alone is saved and served."""

from collections.abc import Mapping
from typing import Any, Generic, Protocol, Self, TypeVar

from foundation.errors import BadInputError


class SavedScorer(Protocol):
    """What a model saves of itself."""

    def to_data(self) -> dict[str, Any]:
        """The saved form."""

    @classmethod
    def from_data(cls, document: Mapping[str, Any]) -> Self:
        """Read the saved form."""


ScorerT = TypeVar("ScorerT", bound=SavedScorer)


class ScorerModel(Generic[ScorerT]):
    """What such models have in common; `fit` sets `_scorer`.

    `words` is the model's name in a sentence, `fit_words` what its `fit` is called with.
    """

    words: str
    fit_words: str
    scorer_type: type[ScorerT]
    _scorer: ScorerT | None = None

    @property
    def scorer(self) -> ScorerT:
        """What is saved and served; raises BadInputError before `fit`."""
        if self._scorer is None:
            raise BadInputError(
                f"The {self.words} has not been fitted.", remedy=f"Call {self.fit_words} first."
            )
        return self._scorer

    def to_data(self) -> dict[str, Any]:
        """The saved form (model_format)."""
        return self.scorer.to_data()

    @classmethod
    def from_data(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_data` wrote; raises CorruptModelError."""
        model = cls()
        model._scorer = cls.scorer_type.from_data(document)
        return model


def check_bin_length(given_s: float, learned_s: int, what: str) -> None:
    """Raise BadInputError for a series or table (`what`) with bins of another length than in training."""
    if given_s != learned_s:
        raise BadInputError(
            f"The {what} has bins of {given_s:g} s, the model was trained on {learned_s} s.",
            remedy="Give bins of the same length.",
        )
