"""`lucid keys`: what it says, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Lucid

FIELDS = {"id", "role", "not_before", "not_after", "revoked"}


def keys(lucid: Lucid, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lucid("keys", *words, "--json").json["keys"]
    assert all(key.keys() == FIELDS for key in found)
    return found


def test_keys_come_are_replaced_and_revoked(
    lucid: Lucid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("LUCID_TRUST")
    judge, publisher = keys(lucid, "create")
    assert (judge["role"], publisher["role"]) == ("judge", "publisher")
    assert keys(lucid, "show") == [judge, publisher]
    *_, following = keys(lucid, "rotate", "--role", "publisher")
    assert keys(lucid, "rotate", "--role", "publisher", "--finish")[1]["not_after"] is not None
    assert keys(lucid, "revoke", following["id"][:10])[2]["revoked"] is not None
    shown = lucid("keys", "show", "--trust-file").out
    assert shown == (tmp_path / "trust.json").read_text()
