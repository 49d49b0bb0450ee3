"""What the tests of the core and of its parts share, and how tests run: tests/fixtures.py."""

pytest_plugins = ["tests.fixtures"]
