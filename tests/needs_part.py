"""Tests that need another part than the one that they are of."""

import pytest

from foundation.parts import installed_parts


def needs_part(name: str) -> pytest.MarkDecorator:
    """Skip a test where a part is not installed."""
    installed = name in {part.name for part in installed_parts()}
    return pytest.mark.skipif(not installed, reason=f"the part {name} is not installed")
