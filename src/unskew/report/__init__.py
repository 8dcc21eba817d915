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

    Examples
    --------
    >>> from unskew.diagnostics import audit
    >>> from unskew.report import to_html
    >>> from unskew.simulate import make_sites
    >>> data = make_sites(200, n_features=3, random_state=0)
    >>> found = audit(data.X, suspects=data.suspects)
    >>> to_html(found)[:15]
    '<!doctype html>'
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

    Examples
    --------
    >>> from unskew.diagnostics import audit
    >>> from unskew.report import to_markdown
    >>> from unskew.simulate import make_sites
    >>> data = make_sites(200, n_features=3, random_state=0)
    >>> found = audit(data.X, suspects=data.suspects)
    >>> to_markdown(found).splitlines()[0][:6]
    '# Yes:'
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

    Examples
    --------
    >>> from unskew.diagnostics import audit
    >>> from unskew.report import to_json
    >>> from unskew.simulate import make_sites
    >>> data = make_sites(200, n_features=3, random_state=0)
    >>> found = audit(data.X, suspects=data.suspects)
    >>> import json
    >>> json.loads(to_json(found))["n_rows"]
    200
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

    Examples
    --------
    >>> from unskew.diagnostics import audit
    >>> from unskew.report import write_report
    >>> from unskew.simulate import make_sites
    >>> data = make_sites(200, n_features=3, random_state=0)
    >>> found = audit(data.X, suspects=data.suspects)
    >>> import tempfile
    >>> write_report(found, tempfile.mkdtemp() + "/audit.md").name
    'audit.md'
    """
    path = Path(path)
    writer = WRITERS.get(path.suffix.lower())
    if writer is None:
        raise ValueError(
            f"path={str(path)!r} ends in {path.suffix!r}; it should end in .html, .md or .json"
        )
    write_atomic(path, writer(found))
    return path
