"""Render a Page as one self-contained HTML file."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import jinja2

from ._page import MISSING, Page, form, pictures_of, rows_in_words
from ._svg import inline_svg

HERE = Path(__file__).parent


def _policy(script: str) -> str:
    """Content-Security-Policy that blocks network access and all scripts but the report's own, so
    that scripts injected through user data do not run.

    Inline styles are allowed, because the SVG elements have style attributes.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _sort_value(value: Any, how: str) -> str:
    """Sort key of a cell; missing values are last in both directions."""
    if value is None:
        return ""
    return str(value).casefold() if how == "text" else repr(float(value))


def render_html(page: Page) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = (HERE / "static" / "tables.js").read_text(encoding="utf-8").strip()
    style = (HERE / "static" / "style.css").read_text(encoding="utf-8").strip()
    drawings = {
        picture.key: inline_svg(picture.draw(), picture.key, picture.title, picture.description)
        for picture in pictures_of(page)
    }
    return environment.get_template("page.html").render(
        page=page,
        drawings={key: jinja2.utils.markupsafe.Markup(svg) for key, svg in drawings.items()},
        style=jinja2.utils.markupsafe.Markup(style),
        script=jinja2.utils.markupsafe.Markup(script),
        policy=_policy(script),
        form=form,
        rows=rows_in_words(page.settings),
        sort_value=_sort_value,
        missing=MISSING,
    )
