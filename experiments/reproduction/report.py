"""A report as Markdown and as one self-contained HTML page, with its tables and figures as files."""

import base64
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from markdown_it import MarkdownIt
from markupsafe import Markup
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from experiments.reproduction.sections import Section
from foundation.csv_files import write_csv
from foundation.figure_texts import texts_as_written
from foundation.html_pages import render_page
from foundation.markdown import markdown_frame

REPORT_MD, REPORT_HTML = "report.md", "report.html"
DPI = 90


@dataclass(frozen=True)
class Report:
    """`origin` is printed as name: value; `opening` are the paragraphs before the first section."""

    title: str
    origin: Mapping[str, str]
    opening: Sequence[str]
    remarks: Sequence[str]
    sections: Sequence[Section] = field(default_factory=tuple)


def png(figure: Figure) -> bytes:
    """Draw a figure; the same figure gives the same bytes."""
    FigureCanvasAgg(figure)
    out = BytesIO()
    with texts_as_written(figure):
        figure.savefig(out, format="png", dpi=DPI, metadata={"Software": None})
    return out.getvalue()


def to_markdown(report: Report, images: str = "", tables: bool = True) -> str:
    """Return the report as Markdown; figures are at `images`KEY.png, tables at KEY.csv where `tables`."""
    parts = [f"# {report.title}"]
    parts += report.opening
    parts.append("\n".join(f"- {name}: {value}" for name, value in report.origin.items()))
    parts.append("## What to keep in mind")
    parts.append("\n".join(f"- {remark}" for remark in report.remarks))
    for section in report.sections:
        parts.append(f"## {section.title}")
        if not section.shown.empty:
            parts.append(markdown_frame(section.shown))
        if section.figure is not None:
            parts.append(f"![{section.title}]({images}{section.key}.png)")
        parts += section.notes
        if tables and not section.tidy.empty:
            parts.append(f"Data: [{section.key}.csv]({section.key}.csv)")
    return "\n\n".join(parts) + "\n"


def to_html(markdown: str, title: str, pictures: Mapping[str, bytes]) -> str:
    """Return Markdown as one HTML page; images named in `pictures` are put into it."""
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)
    for name, content in pictures.items():
        inline = f"data:image/png;base64,{base64.b64encode(content).decode()}"
        body = body.replace(f'src="{html.escape(name)}"', f'src="{inline}"')
    return render_page("experiments.reproduction", "report.html", title=title, body=Markup(body))  # noqa: S704


def write_report(report: Report, out_dir: Path) -> list[Path]:
    """Write report.md, report.html, a CSV a table and a PNG a figure; return the files."""
    out_dir.mkdir(parents=True, exist_ok=True)
    pictures: dict[str, bytes] = {}
    written: list[Path] = []
    for section in report.sections:
        if not section.tidy.empty:
            written.append(out_dir / f"{section.key}.csv")
            write_csv(section.tidy, written[-1])
        if section.figure is not None:
            name = f"{section.key}.png"
            pictures[name] = png(section.figure)
            written.append(out_dir / name)
            written[-1].write_bytes(pictures[name])
    text = to_markdown(report)
    for name, content in (
        (REPORT_MD, text),
        (REPORT_HTML, to_html(text, report.title, pictures)),
    ):
        written.append(out_dir / name)
        written[-1].write_text(content, encoding="utf-8")
    return written


def write_page(report: Report, page: Path) -> list[Path]:
    """Write a page of the documentation: Markdown, figures in images/ beside it; old figures of it go."""
    images = page.parent / "images"
    images.mkdir(parents=True, exist_ok=True)
    for old in images.glob(f"{page.stem}.*.png"):
        old.unlink()
    written = [page]
    for section in report.sections:
        if section.figure is not None:
            written.append(images / f"{page.stem}.{section.key}.png")
            written[-1].write_bytes(png(section.figure))
    page.write_text(to_markdown(report, f"images/{page.stem}.", tables=False), encoding="utf-8")
    return written
