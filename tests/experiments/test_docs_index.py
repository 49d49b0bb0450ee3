"""Generated lists of docs/ are current."""

from experiments.docs_index import pages


def test_the_generated_lists_are_those_of_the_tree() -> None:
    stale = [page.name for page, text in pages().items() if page.read_text(encoding="utf-8") != text]
    assert not stale, "write them anew: python -m experiments.docs_index"
