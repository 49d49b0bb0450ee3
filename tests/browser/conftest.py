"""Chromium on an API server with a filled installation, logged in as one of Airflow's roles."""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.browser.installation import Installation

PROGRAM = shutil.which("chromium") or "/usr/bin/chromium"
PATIENCE_MS = 30_000  # the machine may be busy


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """First what an empty installation shows; last the test after which another release is live."""
    items.sort(key=lambda item: "empty_installation" not in getattr(item, "fixturenames", ()))
    items.sort(key=lambda item: item.path.stem == "test_approval_in_the_browser")


@pytest.fixture(scope="session")
def program() -> str:
    """Debian's Chromium."""
    if not Path(PROGRAM).exists():
        pytest.skip("no Chromium: apt-get install chromium")
    return PROGRAM


@pytest.fixture(scope="module")
def chromium(program: str) -> Iterator[Any]:
    """Chromium, driven by Playwright: for a module, since its event loop would be in other tests' way."""
    from tests.browser.driver import expect, sync_playwright

    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def empty_installation(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """One in which nothing has been done yet, until a test asks for the filled one."""
    installation = Installation(tmp_path_factory.mktemp("installation"))
    try:
        installation.start()
        yield installation
    finally:
        installation.stop()


@pytest.fixture(scope="session")
def installation(request: pytest.FixtureRequest, program: str) -> Installation:
    """The filled installation that all other tests look at; what it holds says `filling.py`."""
    if port := os.environ.get("LUCID_PAGES_PORT"):
        return Installation(Path(), port=int(port))
    installation: Installation = request.getfixturevalue("empty_installation")
    installation.fill()
    return installation


@dataclass
class Visits:
    """Pages of people, a browser context for each role and colour, with what went wrong on them."""

    chromium: Any
    contexts: dict[tuple[str, str, str], Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def __call__(
        self, installation: Installation, path: str, *, role: str | None = "admin", scheme: str = "light"
    ) -> Any:
        """Open a path as a person (None: nobody has logged in), in light or dark; returns the page."""
        page = self._context(installation, role, scheme).new_page()
        page.on("console", lambda message: self._console(message))
        page.on("pageerror", lambda error: self.problems.append(f"error on {path}: {error}"))
        page.on("request", lambda request: self._request(request.url, installation.url))
        page.goto(installation.url + path)
        return page

    def close_pages(self) -> None:
        """Close all pages; the contexts keep their login and their cache."""
        for context in self.contexts.values():
            for page in context.pages:
                page.close()

    def _context(self, installation: Installation, role: str | None, scheme: str) -> Any:
        key = (installation.url, str(role), scheme)
        if key not in self.contexts:
            context = self.chromium.new_context(
                color_scheme=scheme,
                viewport={"width": 1280, "height": 900},
                locale="en-GB",
                timezone_id="UTC",
            )
            if role is not None:
                cookie = {"name": "_token", "value": installation.token(role), "url": f"{installation.url}/"}
                context.add_cookies([cookie])
            self.contexts[key] = context
        return self.contexts[key]

    def _console(self, message: Any) -> None:
        if message.type == "error":
            self.problems.append(f"console: {message.text} {message.location}")

    def _request(self, url: str, origin: str) -> None:
        if not url.startswith((f"{origin}/", "data:", "blob:")):
            self.problems.append(f"request to {url}")


@pytest.fixture(scope="module")
def all_visits(chromium: Any) -> Iterator[Visits]:
    visits = Visits(chromium)
    yield visits
    for context in visits.contexts.values():
        context.close()


@pytest.fixture
def visit_of(all_visits: Visits) -> Iterator[Visits]:
    """Opens pages of any installation; the test fails on a console error and on a request that leaves it."""
    all_visits.problems.clear()
    yield all_visits
    all_visits.close_pages()
    assert not all_visits.problems


@pytest.fixture
def visit(visit_of: Visits, installation: Installation) -> Callable[..., Any]:
    """`visit(path, role="viewer", scheme="dark")`: a Playwright page of the filled installation."""

    def open_page(path: str, **person: Any) -> Any:
        return visit_of(installation, path, **person)

    return open_page
