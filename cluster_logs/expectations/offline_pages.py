"""Data Docs that load nothing from the network.

Great Expectations' pages load style sheets, scripts and a logo with a time stamp from other hosts when they
are opened. These and the advertising footer are removed, and with them the scripts of its own, which do
nothing without; a small style sheet of ours keeps the pages readable.
"""

import re
from pathlib import Path

_REMOTE = r"""(?:src|href)\s*=\s*["']?(?:https?:)?//"""
_TAGS = re.compile(
    rf"<footer\b.*?</footer\s*>|<script\b.*?</script\s*>|<link\b[^>]*{_REMOTE}[^>]*>"
    rf"|<link\b[^>]*favicon[^>]*>|<img\b[^>]*{_REMOTE}[^>]*>",
    re.IGNORECASE | re.DOTALL,
)
# What a click would do needs the scripts that are gone.
_HANDLERS = re.compile(r"""\son[a-z]+\s*=\s*(?:"[^"]*"|'[^']*')""", re.IGNORECASE)
_WITH_HANDLERS = re.compile(r"<[a-z][^<>]*\son[a-z]+\s*=[^<>]*>", re.IGNORECASE)
_STYLE_URLS = re.compile(r"""url\(\s*["']?(?:https?:)?//[^)]*\)""", re.IGNORECASE)
_IMPORTS = re.compile(r"""@import\s+(?:url\()?\s*["']?(?:https?:)?//[^;]*;""", re.IGNORECASE)
_MARK = "lucid-offline"
_STYLE = f"""<style id="{_MARK}">
body {{ font: 15px/1.5 sans-serif; margin: 0 2rem 2rem; color: #222; background: #fff; }}
table {{ border-collapse: collapse; margin: .5rem 0; }}
th, td {{ border: 1px solid #ccc; padding: .3rem .6rem; text-align: left; vertical-align: top; }}
.d-none, .modal, .collapse {{ display: none; }}
.row {{ display: flex; gap: 2rem; }}
.col-md-2, .navigation {{ min-width: 15rem; }}
.badge {{ border: 1px solid #888; border-radius: .3rem; padding: 0 .3rem; }}
.fa-check-circle::before {{ content: "\\2714"; color: #1a7f37; }}
.fa-times::before, .fa-times-circle::before {{ content: "\\2718"; color: #b42318; }}
.fa-exclamation-triangle::before {{ content: "\\26A0"; color: #9a6700; }}
</style>"""


def make_offline(folder: Path) -> None:
    """Rewrite the pages and style sheets under a folder so that a browser asks no other host for anything."""
    for page in sorted(folder.rglob("*.html")):
        text = page.read_text(encoding="utf-8")
        if _MARK in text:
            continue
        clean = _IMPORTS.sub("", _STYLE_URLS.sub("none", _TAGS.sub("", text)))
        clean = _WITH_HANDLERS.sub(lambda tag: _HANDLERS.sub("", tag.group()), clean)
        head = clean.lower().find("</head>")
        at = head if head >= 0 else 0
        page.write_text(clean[:at] + _STYLE + clean[at:], encoding="utf-8")
    for sheet in sorted(folder.rglob("*.css")):
        text = sheet.read_text(encoding="utf-8")
        clean = _IMPORTS.sub("", _STYLE_URLS.sub("none", text))
        if clean != text:
            sheet.write_text(clean, encoding="utf-8")
