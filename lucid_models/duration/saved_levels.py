"""Reads the levels of a saved state."""

from collections.abc import Sequence
from dataclasses import replace

from lucid_models.duration.levels import PARTS, TOP, Level, is_coarser
from lucid_models.model_format import Fields, FormatVersionError

# Of the saved state; raised when a reader of the layout before would not know what it reads.
LAYOUT = 4
MOST_LEVELS = 64


def read_levels(state: Fields) -> Sequence[Level]:
    """The levels of a saved state; raises CorruptModelError and FormatVersionError."""
    layout = state.integer("layout", 1, 1_000_000) if state.has("layout") else 1
    if layout != LAYOUT:
        raise FormatVersionError(
            f"{state.place} has layout {layout} of the statistics; this program reads {LAYOUT}.",
            remedy="Train the duration model again with this version.",
        )
    levels: list[Level] = []
    for item in state.children("levels", most=MOST_LEVELS):
        level = Level(
            tuple(item.texts("parts", most=len(PARTS), unique=True)),
            item.text("parent") if item.has("parent") else None,
            item.flag("last_runs"),
            item.flag("flights"),
            item.flag("naive"),
        )
        before = [other.name for other in levels]
        if not set(level.parts) <= set(PARTS) or level.name in before:
            raise item.fail("parts", "name something unknown, or make a level that is there already")
        above = next((other.parts for other in levels if other.name == level.parent), None)
        is_top = replace(level, naive=False) == TOP
        if (above is None or not is_coarser(above, level.parts)) if before else not is_top:
            raise item.fail("parent", "is no coarser level before it")
        levels.append(level)
    if not levels:
        raise state.fail("levels", "is empty")
    return levels
