"""How long things are kept, as an installation says it."""

import pytest

from foundation.errors import BadInputError, UnknownNameError
from foundation.retention_settings import VARIABLE, RetentionSettings, retention_settings


def test_defaults_keep_the_log_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert retention_settings() == RetentionSettings()
    assert retention_settings().lake_days is None


def test_a_setting_is_read_and_null_keeps_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, '{"run_days": 30, "page_days": null, "process_log_mib": 1}')
    settings = retention_settings()
    assert (settings.run_days, settings.page_days, settings.process_log_bytes) == (30.0, None, 2**20)


@pytest.mark.parametrize(
    ("text", "error", "named"),
    [
        ('{"runs": 30}', UnknownNameError, "runs"),
        ('{"run_days": 1}', BadInputError, "run_days"),
        ('{"challenger_days": 3}', BadInputError, "challenger_days"),
        ('{"lake_days": 7}', BadInputError, "lake_days"),
        ('{"run_days": "a week"}', BadInputError, "run_days"),
        ('{"page_days": -1}', BadInputError, "page_days"),
        ("[]", BadInputError, VARIABLE),
    ],
)
def test_what_cannot_be_is_refused(
    text: str, error: type[Exception], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(error, match=named):
        retention_settings()
