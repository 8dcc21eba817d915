"""Reports of the results of `unskew.diagnostics` as HTML, Markdown or JSON.

    write_report(diagnose(model, X), "report.html")

The HTML report is one self-contained file that can be opened without a network connection. See
README.md in this folder for the implementation.
"""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from .._io import write_atomic
from ..diagnostics import Audit, Comparison, Diagnostics
from ._audit_page import page_of_audit
from ._comparison_page import page_of_comparison
from ._fit_page import page_of_fit
from ._markdown import render_markdown
from ._page import Page

__all__ = ["to_html", "to_json", "to_markdown", "write_report"]


def page_of(found: Any) -> Page:
    """The report on a Diagnostics, an Audit or a Comparison, as plain data."""
    if isinstance(found, Diagnostics):
        return page_of_fit(found)
    if isinstance(found, Audit):
        return page_of_audit(found)
    if isinstance(found, Comparison):
        return page_of_comparison(found)
    raise TypeError(
        f"found should be a result of diagnose, audit or compare, not {type(found).__name__}"
    )


def to_html(found: Any) -> str:
    """Render a self-contained HTML page: verdict, plots, tables, settings. Needs unskew[report].

    Parameters
    ----------
    found : Diagnostics, Audit or Comparison

    Returns
    -------
    str
    """
    try:
        from ._html import render_html
    except ModuleNotFoundError as error:  # jinja2 or matplotlib
        raise ImportError(f"{error.name} is not installed; HTML needs unskew[report]") from error
    return render_html(page_of(found))


def to_markdown(found: Any) -> str:
    """Render the same text and tables as Markdown; plots are replaced by their captions.

    Parameters
    ----------
    found : Diagnostics, Audit or Comparison

    Returns
    -------
    str
    """
    return render_markdown(page_of(found))


def plain(value: Any) -> Any:
    """Convert dataclasses, arrays and numpy scalars for JSON; non-finite numbers become null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def to_json(found: Any) -> str:
    """Serialize all fields of the dataclasses as JSON; missing numbers are null, never NaN.

    Parameters
    ----------
    found : Diagnostics, Audit or Comparison

    Returns
    -------
    str
    """
    page_of(found)  # raises TypeError for the same types as the other formats
    kind = type(found).__name__.lower()
    content = {"kind": kind, **plain(found)}
    return json.dumps(content, allow_nan=False, ensure_ascii=False, indent=1) + "\n"


WRITERS = {".html": to_html, ".htm": to_html, ".md": to_markdown, ".json": to_json}


def write_report(found: Any, path: Any) -> Path:
    """Write the report in the format of the suffix: .html, .md or .json. Returns the path.

    The write is atomic: a temporary file is written and then renamed.

    Parameters
    ----------
    found : Diagnostics, Audit or Comparison
    path : str or path
    """
    path = Path(path)
    writer = WRITERS.get(path.suffix.lower())
    if writer is None:
        raise ValueError(
            f"path={str(path)!r} ends in {path.suffix!r}; it should end in .html, .md or .json"
        )
    write_atomic(path, writer(found))
    return path
