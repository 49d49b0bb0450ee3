"""What stands at a place that a part names, and what is said where that needs another part."""

from pathlib import Path

import pytest

from foundation.errors import NotFoundError
from foundation.parts import at_place


def test_a_place_is_a_name_in_a_module() -> None:
    assert at_place("foundation.parts:at_place") is at_place


def test_a_place_that_needs_a_part_which_is_not_installed_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "parts").mkdir()  # other parts may be installed, or none
    (tmp_path / "on_another_part.py").write_text("from parts.not_there.model import Model\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(NotFoundError, match="on_another_part needs the part 'not_there'") as refused:
        at_place("on_another_part:Model")
    assert "pip install ./parts/not_there" in str(refused.value)


def test_a_module_that_is_missing_otherwise_is_an_import_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "on_nothing.py").write_text("import not_a_distribution\n")
    monkeypatch.syspath_prepend(tmp_path)
    for place in ("on_nothing:x", "parts.not_there.model:Model"):
        with pytest.raises(ModuleNotFoundError):
            at_place(place)
