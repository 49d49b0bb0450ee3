"""Which past jobs have a name like a new job's: by the paper's rule and by the artifact's.

Names arrive as families (lower case, digits as one letter), of which a log has far fewer than names. Both
rules say under which keys an ended job is counted, and which of these keys a new job is like.
"""

from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher
from typing import Protocol

from rapidfuzz.distance import Indel, Levenshtein
from rapidfuzz.process import extract, extractOne

from lucid_models.duration.name_buckets import LONGEST, name_family

BEST_NAMES = 2  # how many of all users' names the artifact takes
# A new name is compared with itself and this many others, those that ended first the latest: the artifact
# compares it with all, which takes the square of their number.
MOST_COMPARED = 4_096
_ROUNDING = 1e-4  # rapidfuzz drops names that are exactly as alike as its cutoff


def compared_name(name: str) -> str:
    """Return a name's family; a name without letters is its own, for masked it would be like all others."""
    return name_family(name) if has_letters(name) else name


def has_letters(name: str) -> bool:
    """Say whether a name is more than a number."""
    return any(letter.isalpha() for letter in name)


class NameMatcher(Protocol):
    """One rule of similar names; owners are users."""

    def counted_under(self, owner: Hashable, family: str) -> Sequence[Hashable]:
        """Return the keys of an ended job's run time; from now on its name is one of a past job."""

    def matching(self, owner: Hashable, family: str) -> Sequence[Sequence[Hashable]]:
        """Return keys of past jobs with similar names, the preferred ones first; some may have no jobs."""


class OwnNameGroups:
    """The user's names in groups: a name joins the group of the most similar first name, or begins one.

    Similarity is 1 - Levenshtein distance / length of the longer name. A name is put into its group when it
    is first seen, so that no later name moves it.
    """

    def __init__(self, least_similarity: float) -> None:
        self._least = least_similarity
        self._groups: dict[Hashable, dict[str, str]] = {}
        self._first_names: dict[Hashable, list[str]] = {}

    def counted_under(self, owner: Hashable, family: str) -> Sequence[Hashable]:
        """The user's group of that name."""
        return ((owner, self._group(owner, family)),)

    def matching(self, owner: Hashable, family: str) -> Sequence[Sequence[Hashable]]:
        """The user's group of that name."""
        return (((owner, self._group(owner, family)),),)

    def _group(self, owner: Hashable, family: str) -> str:
        groups = self._groups.setdefault(owner, {})
        group = groups.get(family)
        if group is None:
            first_names = self._first_names.setdefault(owner, [])
            name = family[:LONGEST]
            nearest = extractOne(
                name, first_names, scorer=Levenshtein.normalized_similarity, score_cutoff=self._least
            )
            if nearest is None:
                first_names.append(name)
            group = groups[family] = name if nearest is None else nearest[0]
        return group


class BestOfAllNames:
    """The two names of past jobs, of whatever user, that difflib holds for most alike.

    The user's own jobs of these names count; without any, those of all users.
    """

    def __init__(self, least_similarity: float) -> None:
        self._least = least_similarity
        self._names: list[str] = []  # of ended jobs, in the order of their first end
        self._ended: set[str] = set()
        self._best: dict[str, tuple[int, list[tuple[float, str]]]] = {}

    def counted_under(self, owner: Hashable, family: str) -> Sequence[Hashable]:
        """The name, and the user's name."""
        if family not in self._ended:
            self._ended.add(family)
            self._names.append(family)
        return ((owner, family), (None, family))

    def matching(self, owner: Hashable, family: str) -> Sequence[Sequence[Hashable]]:
        """The user's jobs of the two best names, then those of all users."""
        best = [name for _, name in self._best_of(family)]
        return ([(owner, name) for name in best], [(None, name) for name in best])

    def _best_of(self, family: str) -> list[tuple[float, str]]:
        """The best names so far; only names that are new since the last time are compared.

        difflib's ratio counts letters of common blocks, which are a common subsequence: the ratio of the
        longest one (Indel) is never below it and rules out almost all names.
        """
        compared, best = self._best.get(family, (0, []))
        if compared < len(self._names):
            if family in self._ended and all(name != family for _, name in best):
                best = [(1.0, family), *best][:BEST_NAMES]
            cutoff = best[-1][0] if len(best) == BEST_NAMES else self._least
            candidates = extract(
                family,
                self._names[max(compared, len(self._names) - MOST_COMPARED) :],
                scorer=Indel.normalized_similarity,
                score_cutoff=max(cutoff - _ROUNDING, 0.0),
                limit=None,
            )
            for name, bound, _ in candidates:
                if len(best) == BEST_NAMES and bound < best[-1][0] - _ROUNDING:
                    break
                ratio = SequenceMatcher(None, name, family).ratio()
                if ratio >= self._least and name != family:
                    # As difflib.get_close_matches: on ties the name that sorts last.
                    best = sorted([*best, (ratio, name)], reverse=True)[:BEST_NAMES]
            self._best[family] = (len(self._names), best)
        return best
