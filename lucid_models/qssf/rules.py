"""The rules of QSSF's estimate: as Helios' paper (SC '21, section 4.2.2) states them, and as shipped.

They differ in more than a parameter, so that each difference is a setting of one estimator:

| setting | the paper | the artifact |
| --- | --- | --- |
| `similar_names` | Levenshtein, the user's own names | difflib, the two best of all users' names |
| `least_similarity` | not stated (here 0.9) | 0.6 |
| `matched` | exponentially decayed mean | plain mean, at the job's GPU demand if there is one |
| `new_user` | mean of the jobs with the same GPU demand | mean of all jobs |
| `new_name` | the user's mean at that GPU demand | mean of all the user's jobs |
| `rolling_weight` | not stated | 0.1 |
| `trees_may_be_negative` | not stated | no: the rolling estimate alone |
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal, get_args

from foundation.errors import BadInputError, UnknownNameError

SimilarNames = Literal["levenshtein", "difflib"]
Matched = Literal["decayed", "mean"]
Among = Literal["same_gpus", "all_jobs"]


@dataclass(frozen=True)
class QssfRules:
    """How QSSF's estimate is made: `rolling_weight` x P_R + (1 - `rolling_weight`) x P_M, in seconds.

    - `similar_names`: "levenshtein" puts a user's names into groups, "difflib" takes the two names of all
      users' ended jobs that are most alike. Names are compared as families: lower case, a run of digits is
      one letter (a name without letters stays as it is).
    - `least_similarity`: from how alike two names count as similar, 0 to 1 (1: the same family).
    - `matched`: what is said of the jobs with similar names: their exponentially decayed mean, or their mean
      (of those with the job's GPU demand, if there are any).
    - `new_user`, `new_name`: the mean of which jobs is said of a user without ended jobs, and of a user's job
      with a name like no other: those with the same GPU demand, or all.
    - `rolling_weight`: the paper's lambda; 1 leaves the trees out.
    - `trees_may_be_negative`: mix whatever the trees say; else the rolling estimate stands alone where they
      say nothing above 0.
    """

    similar_names: SimilarNames = "levenshtein"
    least_similarity: float = 0.9
    matched: Matched = "decayed"
    new_user: Among = "same_gpus"
    new_name: Among = "same_gpus"
    rolling_weight: float = 0.1
    trees_may_be_negative: bool = True

    def __post_init__(self) -> None:
        for name, choices in (
            ("similar_names", get_args(SimilarNames)),
            ("matched", get_args(Matched)),
            ("new_user", get_args(Among)),
            ("new_name", get_args(Among)),
        ):
            if getattr(self, name) not in choices:
                raise BadInputError(
                    f"{name} is {getattr(self, name)!r}.", remedy=f"Choose one of: {', '.join(choices)}."
                )
        for name in ("least_similarity", "rolling_weight"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise BadInputError(f"{name} is {getattr(self, name)}.", remedy="Choose 0 to 1.")


PUBLISHED = QssfRules()
AS_SHIPPED = QssfRules(
    similar_names="difflib",
    least_similarity=0.6,
    matched="mean",
    new_user="all_jobs",
    new_name="all_jobs",
    trees_may_be_negative=False,
)
RULES: Mapping[str, QssfRules] = {"qssf": PUBLISHED, "qssf-artifact": AS_SHIPPED}


def load_qssf_rules(name: str) -> QssfRules:
    """Return the rules by name; raises UnknownNameError with the names that there are."""
    if name not in RULES:
        raise UnknownNameError("rules of QSSF's estimate", name, RULES)
    return RULES[name]


def differences() -> tuple[str, ...]:
    """Name the settings in which the artifact differs from the paper."""
    return tuple(
        field.name
        for field in fields(QssfRules)
        if getattr(PUBLISHED, field.name) != getattr(AS_SHIPPED, field.name)
    )
