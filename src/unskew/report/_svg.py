"""Convert a matplotlib figure to inline SVG with the colours and fonts of the page."""

from __future__ import annotations

import io
import re
from html import escape
from typing import Any

import matplotlib as mpl

from ..plots import _style

# Colours of the figure -> variables of the style sheet, which defines light, dark and print.
VARIABLES = {
    _style.INK: "--ink",
    _style.MUTED: "--muted",
    _style.GRID: "--line",
    _style.PAPER: "--card",
    _style.BLUE: "--blue",
    _style.ORANGE: "--orange",
    _style.GREEN: "--green",
    _style.RED: "--red",
    _style.SKY: "--sky",
    _style.PURPLE: "--purple",
    _style.BLACK: "--black",
    _style.YELLOW: "--yellow",
    _style.VIOLET: "--violet",
    _style.SAND: "--sand",
    _style.WINE: "--wine",
    _style.FOREST: "--forest",
    _style.INDIGO: "--indigo",
    _style.OLIVE: "--olive",
    _style.MAROON: "--maroon",
    _style.MINT: "--mint",
    _style.PLUM: "--plum",
}


def inline_svg(figure: Any, key: str, title: str, description: str) -> str:
    """``key`` is unique in the page; title and description are for screen readers."""
    buffer = io.StringIO()
    # A fixed salt makes the ids deterministic.
    style: Any = {**_style.STYLE, "svg.hashsalt": key}
    with mpl.rc_context(style):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    drawing = buffer.getvalue()
    body = drawing[drawing.index("<svg") :]
    view_box = re.findall(r'viewBox="([^"]+)"', body)[0]
    width = float(view_box.split()[2])
    body = body[body.index(">") + 1 : body.rindex("</svg>")]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.S)
    body = re.sub(r"<style[^>]*>.*?</style>", "", body, flags=re.S)
    body = re.sub(r"<!--.*?-->", "", body, flags=re.S)
    body = body.replace("xlink:href", "href")
    body = _own_ids(body, key)
    body = _page_style(body)
    body = re.sub(r">\s+<", "><", body)
    return (
        f'<svg viewBox="{view_box}" style="max-width:{width * 1.55:.0f}px" role="img" '
        f'aria-labelledby="{key}-title {key}-desc"><title id="{key}-title">{escape(title)}</title>'
        f'<desc id="{key}-desc">{escape(description)}</desc>{body.strip()}</svg>'
    )


def _own_ids(body: str, key: str) -> str:
    """Prefix referenced ids with the key and remove the others."""
    used = set(re.findall(r'href="#([^"]+)"', body)) | set(re.findall(r"url\(#([^)]+)\)", body))

    def renamed(match: re.Match) -> str:
        name = match.group(1)
        return f' id="{key}-{name}"' if name in used else ""

    body = re.sub(r' id="([^"]+)"', renamed, body)
    body = re.sub(r'href="#([^"]+)"', rf'href="#{key}-\1"', body)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{key}-\1)", body)


def _page_style(body: str) -> str:
    """Replace colours by CSS variables and remove font families, so that the page's apply."""

    def restyled(match: re.Match) -> str:
        style = match.group(1)
        for colour, variable in VARIABLES.items():
            style = style.replace(colour, f"var({variable})")
        style = re.sub(r"font: (?:[a-z0-9]+ )*?([\d.]+px) [^;]*", r"font-size: \1", style)
        style = re.sub(r"font-family: [^;]*;?", "", style)
        return f'style="{style.replace(": ", ":").replace("; ", ";")}"'

    return re.sub(r'style="([^"]*)"', restyled, body)
