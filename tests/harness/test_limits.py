"""What takes too long is named: a test's own function, or the fixture that it asked for."""

from pathlib import Path
from textwrap import dedent

import pytest

pytest_plugins = "pytester"

HOOKS = """
from tests.limits import add_setting as pytest_addoption, pytest_fixture_setup, pytest_runtest_teardown
"""
HANGS = "time.sleep(60)"


def run(pytester: pytest.Pytester, code: str, *, function_s: float, fixture_s: float) -> pytest.RunResult:
    pytester.syspathinsert(Path(__file__).parents[2])
    pytester.makeconftest(HOOKS)
    pytester.makeini(
        f"[pytest]\ntimeout = {function_s}\ntimeout_func_only = true\nfixture_timeout = {fixture_s}\n"
    )
    pytester.makepyfile("import time, pytest\n" + dedent(code))
    return pytester.runpytest("-p", "no:cacheprovider")


def test_a_test_is_not_charged_for_what_it_is_the_first_to_ask_for(pytester: pytest.Pytester) -> None:
    code = """
        @pytest.fixture
        def server():
            time.sleep(2.2)

        def test_one(server): ...

        def test_asks_in_its_middle(request):
            request.getfixturevalue("server")
        """
    run(pytester, code, function_s=2, fixture_s=60).assert_outcomes(passed=2)


def test_a_fixture_that_hangs_is_named(pytester: pytest.Pytester) -> None:
    code = f"""
        @pytest.fixture(scope="module")
        def hanging():
            {HANGS}

        @pytest.fixture
        def asks(request):
            request.getfixturevalue("hanging")

        def test_one(hanging): ...

        def test_two(asks): ...

        def test_three(): ...
        """
    found = run(pytester, code, function_s=60, fixture_s=2)
    found.assert_outcomes(errors=2, passed=1)
    found.stdout.fnmatch_lines([f"*{HANGS}*", "*The fixture 'hanging' was not ready within 2 s.*"])
    found.stdout.no_fnmatch_line("*The fixture 'asks'*")


def test_what_does_not_end_is_told_with_the_test_that_it_ends_with(pytester: pytest.Pytester) -> None:
    code = f"""
        @pytest.fixture
        def server():
            yield
            {HANGS}

        def test_one(server): ...

        def test_two(): ...
        """
    found = run(pytester, code, function_s=60, fixture_s=2)
    found.assert_outcomes(passed=2, errors=1)
    found.stdout.fnmatch_lines(["*What ends with this test had not ended within 2 s.*"])


@pytest.mark.parametrize(("marker", "limit"), [("", "2"), ("@pytest.mark.timeout(1)", "1")])
def test_a_function_has_its_limit_unless_it_names_another(
    pytester: pytest.Pytester, marker: str, limit: str
) -> None:
    code = f"""
        {marker}
        def test_one(tmp_path):
            {HANGS}
        """
    found = run(pytester, code, function_s=2, fixture_s=60)
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines([f"*Timeout*{limit}*"])
