"""A package that keeps names says in its docstring what they are for."""

import importlib

import pytest

from checks.tree import ROOT

NAMES = (ROOT / "tests" / "public_names.txt").read_text(encoding="utf-8").split()


@pytest.mark.parametrize("package", sorted({name.partition(".")[0] for name in NAMES}))
def test_the_docstring_says_what_it_is_for(package: str) -> None:
    module = importlib.import_module(package)
    text = module.__doc__ or ""
    assert 3 <= len(text.splitlines()) <= 14
    if package != "foundation":  # its errors are a family, and have a table of their own
        main = [name for name in module.__all__ if f"`{name}`" in text or f"{name}(" in text]
        assert 2 * len(main) >= len(module.__all__), "most of its names are introduced"
