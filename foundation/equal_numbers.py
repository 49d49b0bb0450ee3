"""One way to write each number in what is digested: documents that say the same have one digest."""

from collections.abc import Mapping
from typing import Any


def with_equal_numbers(document: Any) -> Any:
    """Return a JSON-able document in which numbers that are equal are written alike: 60.0 as 60."""
    if isinstance(document, Mapping):
        return {str(key): with_equal_numbers(item) for key, item in document.items()}
    if isinstance(document, list | tuple):
        return [with_equal_numbers(item) for item in document]
    if isinstance(document, float) and document.is_integer():
        return int(document)
    return document
