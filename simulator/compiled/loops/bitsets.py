"""Sets of small numbers as bits, with a second level that says which words are not empty.

A set of numbers below `n` takes `ceil(n / 64)` words, and a bit for each of these. The lowest member is found
in a few instructions, whatever `n` up to some thousand, and in `n / 4096` steps beyond.
"""

from simulator.compiled.loops.jit import Pointer, inlined, leading_zeros, trailing_zeros


@inlined
def insert(bits: Pointer, at: int, words: int, member: int) -> None:
    """Add a member to the set that begins at word `at` and has so many words on its first level."""
    word = member >> 6
    bits[at + word] |= 1 << (member & 63)
    bits[at + words + (word >> 6)] |= 1 << (word & 63)


@inlined
def remove(bits: Pointer, at: int, words: int, member: int) -> None:
    """Take out a member."""
    word = member >> 6
    bits[at + word] &= ~(1 << (member & 63))
    if bits[at + word] == 0:
        bits[at + words + (word >> 6)] &= ~(1 << (word & 63))


@inlined
def lowest(bits: Pointer, at: int, words: int) -> int:
    """Return the lowest member of a set that is not empty."""
    above = at + words
    while bits[above] == 0:
        above += 1
    word = ((above - at - words) << 6) + trailing_zeros(bits[above])
    return (word << 6) + trailing_zeros(bits[at + word])


@inlined
def lowest_from(bits: Pointer, at: int, words: int, least: int) -> int:
    """Return the lowest member of at least so much; -1 when there is none."""
    word = least >> 6
    if word >= words:
        return -1
    found = bits[at + word] & (-1 << (least & 63))
    if found == 0:
        word += 1
        if word >= words:
            return -1
        above, last = word >> 6, (words - 1) >> 6
        summary = bits[at + words + above] & (-1 << (word & 63))
        while summary == 0:
            above += 1
            if above > last:
                return -1
            summary = bits[at + words + above]
        word = (above << 6) + trailing_zeros(summary)
        found = bits[at + word]
    return (word << 6) + trailing_zeros(found)


@inlined
def highest_below(bits: Pointer, at: int, words: int, bound: int) -> int:
    """Return the highest member below a bound; -1 when there is none."""
    word = bound >> 6
    if word < words:
        found = bits[at + word] & ~(-1 << (bound & 63))
    else:
        word = words - 1
        found = bits[at + word]
    if found == 0:
        above = word >> 6
        summary = bits[at + words + above] & ~(-1 << (word & 63))
        while summary == 0:
            above -= 1
            if above < 0:
                return -1
            summary = bits[at + words + above]
        word = (above << 6) + 63 - leading_zeros(summary)
        found = bits[at + word]
    return (word << 6) + 63 - leading_zeros(found)
