"""Sets of nodes as integers: bit *i* stands for node *i*.

A set of thousands of nodes is taken out of another in one operation. Of wide integers `&`, `|` and `^` cost
next to nothing; counting bits and whatever carries (`-x`, `x - 1`) does not, so it is done on halves.
"""

from functools import cache

WIDE = 2_048  # bits; up to here the plain way is the fastest


def nodes_of(nodes: int) -> list[int]:
    """Return the nodes of a set, in order."""
    if not nodes & (nodes - 1):
        return [nodes.bit_length() - 1] if nodes else []
    # A search in text finds the next bit of a wide integer in C; each shift of the integer would copy it.
    text = f"{nodes:b}"[::-1]
    found = []
    node = text.find("1")
    while node >= 0:
        found.append(node)
        node = text.find("1", node + 1)
    return found


def lowest(nodes: int) -> int:
    """Return the lowest of some nodes, at least one, as a set."""
    width = nodes.bit_length()
    if width <= WIDE:
        return nodes & -nodes
    start = 0
    while width > WIDE:
        half = 1 << (width - 1).bit_length() - 1
        low = nodes & _first(half)
        if low:
            nodes = low
        else:
            nodes >>= half
            start += half
        width = nodes.bit_length()
    return (nodes & -nodes) << start


def lowest_of(nodes: int, count: int) -> int:
    """Return the so many lowest of these nodes; there are at least as many, and `count` is not 0."""
    width = nodes.bit_length()
    if width <= WIDE:
        first = nodes & -nodes
        # The usual case in one step: `count` bits in a row from the lowest node on, if the set has all.
        side_by_side = (first << count) - first
        if nodes & side_by_side == side_by_side:
            return side_by_side
    # Halve the window in which the last of them lies.
    window, start = nodes, 0
    while width > 1:
        half = 1 << (width - 1).bit_length() - 1
        low = window & _first(half)
        held = low.bit_count()
        if held >= count:
            window = low
            if held == count:
                start += half
                break
        else:
            count -= held
            window >>= half
            start += half
        width = window.bit_length()
    else:
        start += 1
    return nodes ^ (nodes >> start << start)


@cache
def _first(count: int) -> int:
    return (1 << count) - 1
