"""Pages read as they are in a repository browser. What only Sphinx can show is put in here.

- a link to a script of examples/, or to that folder, becomes a link to its page of the gallery
- the name of a public object in backticks, as `unskew.DCKM`, becomes a link to the reference
- a comment that starts with the word toctree becomes the directive
- notes of docs/results that long runs write may be absent: links to them become text
- pytest needs an empty line between expected output and the end of a block; readers do not
"""

import os
import re
from importlib import import_module
from pathlib import Path

from reference import MODULES

LINK = re.compile(r"\[([^\]]+)\]\(([\w./-]+\.md)\)")
EXAMPLE = re.compile(r"\]\((?:\.\./)+examples/(?:(plot_\w+)\.py)?\)")
NAME = re.compile(r"(?<![`\w}])`(unskew(?:\.\w+)*\.\w+)`(?!`)")
TOCTREE = re.compile(r"^<!-- toctree\n(.*?)^-->$", re.DOTALL | re.MULTILINE)
FENCED = re.compile(r"^(```.*?^```)$", re.DOTALL | re.MULTILINE)
PUBLIC = {f"{module}.{name}" for module in MODULES for name in import_module(module).__all__}


def _unlink_absent_notes(app, page, text):
    def text_of(link):
        note = (page.parent / link[2]).resolve()
        absent = note.parent == Path(app.srcdir, "results").resolve() and not note.exists()
        return f"{link[1]} (not yet made)" if absent else link[0]

    return LINK.sub(text_of, text)


def _link_gallery(app, page, text):
    def to_gallery(link):
        target = Path(app.srcdir, "gallery", f"{link[1] or 'index'}.rst")
        return f"]({Path(os.path.relpath(target, page.parent)).as_posix()})"

    return EXAMPLE.sub(to_gallery, text)


def _link_names(app, page, text):
    def to_reference(name):
        return f"{{py:obj}}`{name[1]}`" if name[1] in PUBLIC else name[0]

    parts = FENCED.split(text)  # every second one is a block of code
    return "".join(p if i % 2 else NAME.sub(to_reference, p) for i, p in enumerate(parts))


def _restore_toctrees(app, page, text):
    return TOCTREE.sub(r"```{toctree}\n\1```", text)


def _strip_end_of_doctests(app, page, text):
    return text.replace("\n\n```\n", "\n```\n")


def _prepare(app, docname, source):
    page = Path(app.srcdir, docname)
    if Path(app.env.doc2path(docname)).suffix != ".md":
        return
    for change in (
        _unlink_absent_notes,
        _link_gallery,
        _link_names,
        _restore_toctrees,
        _strip_end_of_doctests,
    ):
        source[0] = change(app, page, source[0])


def setup(app):
    app.connect("source-read", _prepare)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
