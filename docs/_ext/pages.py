"""Prepare Markdown pages: see the two functions."""

import re
from pathlib import Path

LINK = re.compile(r"\[([^\]]+)\]\(([\w./-]+\.md)\)")


def _unlink_absent_notes(app, docname, source):
    """Notes of docs/results that long runs write may be absent: links to them become text."""
    page = Path(app.srcdir, docname)

    def text_of(link):
        note = (page.parent / link[2]).resolve()
        absent = note.parent == Path(app.srcdir, "results").resolve() and not note.exists()
        return f"{link[1]} (not yet made)" if absent else link[0]

    source[0] = LINK.sub(text_of, source[0])


def _strip_end_of_doctests(app, docname, source):
    """pytest needs an empty line between expected output and the end of a block; readers do not."""
    source[0] = source[0].replace("\n\n```\n", "\n```\n")


def setup(app):
    app.connect("source-read", _unlink_absent_notes)
    app.connect("source-read", _strip_end_of_doctests)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
