"""Pages of HTML: Jinja templates over one base and one style sheet; every value is escaped.

A page is one self-contained file: it loads nothing from any host.
"""

import io
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from foundation.figure_texts import texts_as_written

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Inside HTML an SVG needs neither its prologue nor names of namespaces.
_PROLOGUE = re.compile(
    r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>| xmlns(?::\w+)?=\"[^\"]*\"", re.DOTALL
)


def render_page(package: str, template: str, **values: Any) -> str:
    """Return `PACKAGE/templates/TEMPLATE` with the values put in; a name that is missing raises."""
    return _environment(package).get_template(template).render(values)


def inline_svg(figure: "Figure", title: str) -> Markup:
    """Return a figure as an SVG element with its title for screen readers; the same figure, the same text."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    text = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": title, "svg.fonttype": "none"}), texts_as_written(figure):
        FigureCanvasSVG(figure)
        figure.savefig(text, format="svg", metadata={"Date": None})
    svg = _PROLOGUE.sub("", text.getvalue()).strip()
    return Markup('<svg role="img" aria-label="{}"').format(title) + Markup(svg.removeprefix("<svg"))  # noqa: S704


@cache
def _environment(package: str) -> Environment:
    loaders = [PackageLoader(name, "templates") for name in dict.fromkeys((package, "foundation"))]
    environment = Environment(
        loader=ChoiceLoader(loaders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["dashed"] = dashed
    return environment


def dashed(value: float | None, digits: int = 3) -> str:
    """Return a number with `digits` decimals; a dash where there is none."""
    return "–" if value is None else f"{value:,.{digits}f}"
