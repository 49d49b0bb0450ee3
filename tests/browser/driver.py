"""Playwright, which drives the browser; a test module that imports it from here is skipped without it."""

import pytest

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (make install-test-all)")

from playwright.sync_api import Page, expect, sync_playwright

__all__ = ["Page", "expect", "sync_playwright"]
