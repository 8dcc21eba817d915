"""Docstrings of unskew are plain text, to be read in a terminal: prepare them for reStructuredText.

Formulas (indented) and lists of fields (name, two spaces, description) become literal blocks; |x|
and names that end with an underscore are escaped.
"""

import re
from itertools import pairwise

UNDERLINE = re.compile(r"^-{3,}$")
FIELDS = re.compile(r"^\S(.*\S)? {2,}\S")
QUOTED = re.compile(r"(``.*?``|`[^`]*`)")
NAME_ = re.compile(r"(?<![\w`\\])(\w*[A-Za-z0-9])_(?![\w`])")
PROSE = ("", "Notes", "See Also", "References")


def _escape(text: str) -> str:
    parts = QUOTED.split(text)
    parts[::2] = [NAME_.sub(r"\1\\_", part).replace("|", r"\|") for part in parts[::2]]
    return "".join(parts)


def _paragraphs(lines):
    """Runs of lines between empty lines; an indented formula may contain empty lines."""
    block: list[str] = []
    for line in lines:
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []
    if block:
        yield block


def _convert_text(lines: list[str]) -> list[str]:
    found = []
    for block in _paragraphs(lines):
        if block[0].lstrip().startswith(">>>"):
            found += [*block, ""]
        elif found and block[0].startswith("    "):
            found += ["::", "", *block, ""]
        elif found and FIELDS.match(block[0]):
            found += ["::", "", *("    " + line for line in block), ""]
        else:
            found += [*(_escape(line) for line in block), ""]
    return found


def _convert_fields(lines: list[str]) -> list[str]:
    """Parameters, Attributes, Returns: names stay as they are, the rest is escaped."""
    found = []
    for i, line in enumerate(lines):
        if line.strip() == "Bunch with":
            found += [
                line,
                "    ::",
                "",
                *("        " + rest.strip("\n") for rest in lines[i + 1 :]),
                "",
            ]
            break
        if line.startswith(" "):
            found.append(_escape(line))
        else:
            name, colon, kind = line.partition(" : ")
            found.append(name + colon + _escape(kind))
    return found


def _process(app, what, name, obj, options, lines):
    if not name.startswith("unskew"):
        return
    starts = [i - 1 for i, line in enumerate(lines) if i and UNDERLINE.match(line)]
    bounds = [0, *starts, len(lines)]
    found = []
    for first, last in pairwise(bounds):
        part = lines[first:last]
        head = part[:2] if first in starts else []
        body = part[len(head) :]
        title = head[0].strip() if head else ""
        if title == "Examples":
            converted = body
        else:
            converted = _convert_text(body) if title in PROSE else _convert_fields(body)
        found += [*head, *converted]
    lines[:] = found


def _skip(app, what, name, obj, skip, options):
    """Methods of scikit-learn's metadata routing are described there."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def setup(app):
    app.connect("autodoc-process-docstring", _process, priority=100)  # before numpydoc (500)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
