"""How long a fixture may take until it is ready, and what a test leaves behind until it is gone.

pytest-timeout limits a test's own function (`timeout` in pyproject.toml). A server or a trained model that it
is the first to ask for is not its fault: each fixture has a limit of its own, and so has the end of a test
with all fixtures that end with it (`fixture_timeout`). The limit of the test that asks stands still
meanwhile.
"""

import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

SETTING = "fixture_timeout"


def add_setting(parser: pytest.Parser) -> None:
    parser.addini(
        SETTING, "seconds that a fixture may take until it is ready, or until it has ended", default="1500"
    )


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: pytest.FixtureRequest) -> Generator[None, Any, Any]:
    with _limited(request.config, f"The fixture {fixturedef.argname!r} was not ready"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    with _limited(item.config, "What ends with this test had not ended"):
        return (yield)


@contextmanager
def _limited(config: pytest.Config, complaint: str) -> Iterator[None]:
    """Fail where the main thread stands when the time is over; 0: there is no limit."""
    limit_s = float(config.getini(SETTING))

    def fail(signum: int, frame: FrameType | None) -> None:
        pytest.fail(f"{complaint} within {limit_s:g} s.")

    if not limit_s:
        yield
        return
    outer = signal.signal(signal.SIGALRM, fail)
    outer_left_s, _ = signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, outer)
        signal.setitimer(signal.ITIMER_REAL, outer_left_s)
