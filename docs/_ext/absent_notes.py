"""Notes of docs/results that long runs write may be absent: links to them become text."""

import re
from pathlib import Path

LINK = re.compile(r"\[([^\]]+)\]\(([\w./-]+\.md)\)")


def _unlink(app, docname, source):
    page = Path(app.srcdir, docname)

    def text_of(link):
        note = (page.parent / link[2]).resolve()
        absent = note.parent == Path(app.srcdir, "results").resolve() and not note.exists()
        return f"{link[1]} (not yet made)" if absent else link[0]

    source[0] = LINK.sub(text_of, source[0])


def setup(app):
    app.connect("source-read", _unlink)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
