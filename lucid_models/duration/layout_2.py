"""The levels of models that were saved when they were a fixed list (layout 2), as levels of today.

Their keys, statistics and features are as they were. `tests/lucid_models/saved/duration_layout_2.json.gz` is
such a model.
"""

from lucid_models.duration.levels import TOP, Level, level_name
from lucid_models.model_format import Fields

_MEANS_ONLY = (
    ("size",),
    ("virtual_cluster",),
    ("virtual_cluster", "size"),
    ("job_type",),
    ("time_limit",),
    ("bucket",),
)
_WITH_FLIGHTS = (("user",), ("user", "name"), ("name",), ("virtual_cluster",))
# In their order; each leans on the first of the levels behind it that the model has.
_LEVELS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("size",): (),
    ("virtual_cluster",): (),
    ("virtual_cluster", "size"): ("size",),
    ("job_type",): (),
    ("time_limit",): (),
    ("bucket",): (),
    ("family",): ("bucket",),
    ("name",): ("family", "bucket"),
    ("user",): (),
    ("user", "size"): ("user",),
    ("user", "time_limit"): ("user",),
    ("user", "size", "time_limit"): ("user_time_limit", "user"),
    ("user", "bucket"): ("user",),
    ("user", "family"): ("user_bucket", "user"),
    ("user", "family", "size"): ("user_family", "user_bucket", "user"),
    ("user", "name"): ("user_family", "user_bucket", "user"),
    ("user", "name", "size"): ("user_name", "user_family", "user_bucket", "user"),
}


def read_levels_of_layout_2(state: Fields) -> list[Level]:
    """The levels of a saved state of layout 2; raises CorruptModelError."""
    names = state.texts("levels", most=len(_LEVELS) + 1, unique=True)
    levels = [TOP]
    for parts, parents in _LEVELS.items():
        if level_name(parts) in names:
            above = next((parent for parent in parents if parent in names), TOP.name)
            levels.append(Level(parts, above, parts not in _MEANS_ONLY, parts in _WITH_FLIGHTS))
    if [level.name for level in levels] != names:
        raise state.fail("levels", "name something unknown, or are not in their order")
    return levels
