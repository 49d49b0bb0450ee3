"""Reads the levels of a saved state, of today's layout and of those before."""

from collections.abc import Sequence
from dataclasses import replace

from lucid_models.duration.layout_2 import read_levels_of_layout_2
from lucid_models.duration.levels import PARTS, TOP, Level, is_coarser
from lucid_models.model_format import Fields, FormatVersionError

# Of the saved state; raised when a reader of the older layout would not know what it reads.
LAYOUT = 4
MOST_LEVELS = 64


def read_levels(state: Fields) -> Sequence[Level]:
    """The levels of a saved state, also of layout 2 or 3; raises CorruptModelError and FormatVersionError."""
    layout = state.integer("layout", 1, 1_000_000) if state.has("layout") else 1
    if layout == 2:
        return read_levels_of_layout_2(state)
    if layout not in (3, LAYOUT):
        raise FormatVersionError(
            f"{state.place} has layout {layout} of the statistics; this program reads 2 to {LAYOUT}.",
            remedy="Train the duration model again with this version.",
        )
    levels: list[Level] = []
    for item in state.children("levels", most=MOST_LEVELS):
        level = Level(
            tuple(item.texts("parts", most=len(PARTS), unique=True)),
            item.text("parent") if item.has("parent") else None,
            item.flag("last_runs"),
            item.flag("flights"),
            layout >= LAYOUT and item.flag("naive"),
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
