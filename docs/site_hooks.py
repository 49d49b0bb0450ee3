"""Hooks of mkdocs: the site shows docs/, and README, CONTRIBUTING, CHANGELOG and the parts' pages beside it.

A page's links are written for the tree. Those to other pages of the site are led there; those to files of the
tree that are no page become plain text.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]


def _name(page: Path) -> str:
    """What a part's page is called on the site: the part's README by the part's name."""
    return page.parent.name if page.stem == "README" else f"{page.parent.name}_{page.stem}"


# Page of the site -> file of the tree, for pages outside of docs/.
OUTSIDE = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"} | {
    f"parts/{_name(page)}.md": page.relative_to(ROOT).as_posix() for page in sorted(ROOT.glob("parts/*/*.md"))
}
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Write out the folders that the navigation names as FOLDER/*."""
    config.nav = _written_out(config.nav)
    return config


def _written_out(nav: Any) -> Any:
    if isinstance(nav, dict):
        return {title: _written_out(below) for title, below in nav.items()}
    if isinstance(nav, list):
        return [page for each in nav for page in (_pages(each) if _is_folder(each) else [_written_out(each)])]
    return nav


def _is_folder(entry: Any) -> bool:
    return isinstance(entry, str) and entry.endswith("/*")


def _pages(entry: str) -> list[str]:
    folder = entry.removesuffix("/*")
    inside = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs" / folder).glob("*.md")}
    return sorted(inside | {page for page in OUTSIDE if page.startswith(f"{folder}/")}, key=_readme_first)


def _readme_first(page: str) -> tuple[bool, str]:
    return not page.endswith("README.md"), page


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from outside of docs/."""
    for page, source in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Lead the page's links to the site."""
    uri = page.file.src_uri
    source = OUTSIDE.get(uri, f"docs/{uri}")
    pages = {tree: site for site, tree in OUTSIDE.items()}

    def led(found: re.Match[str]) -> str:
        mark, words, target, anchor = found[1], found[2], found[3], found[4] or ""
        if not target or ":" in target:
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        site = pages.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if site is None or files.get_file_from_path(site) is None:
            if path.startswith("docs/") or not (ROOT / path).exists():
                return found[0]  # mkdocs says so
            return words
        return f"{mark}[{words}]({posixpath.relpath(site, posixpath.dirname(uri) or '.')}{anchor})"

    pieces = _FENCED.split(markdown)
    pieces[::2] = [_LINK.sub(led, piece) for piece in pieces[::2]]
    return "".join(pieces)
