"""What a column of a table seems to be: identifiers, free text, codes, near-duplicates."""

from __future__ import annotations

import re

import numpy as np

from .._data.columns import ColumnValues, format_number
from .._records import CODES

# Without max_categories, number of the most frequent values of a text column that are kept.
MAX_DISTINCT = 50
# A text column with more distinct values than this, nearly all of which occur once, is an
# identifier or free text if most of its values have digits or LONG_TEXT characters, or if it has
# more than MAX_DISTINCT values.
# With more than MAX_DISTINCT values it is one, too, if more than half of the rows have a value that
# occurs once (names of cars, cities of airports): most rows would be in the pool of rare values.
MAX_UNIQUE, NEARLY_ALL, LONG_TEXT, ALONE = 10, 0.9, 20, 0.5
# Text that starts like a date, year first or last.
DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}")
# Fewer rows say nothing about identifiers among numbers and about near-duplicates.
MIN_ROWS = 20
# Names of identifiers: a word of its own, or the end of a word that names what is counted.
ID_NAME = re.compile(
    r"(?:^|_)(?:id|ids|uid|uuid|guid|idx|index|key|row|rowname|rownames|seq|seqn|seqno|serial)(?:_|$)"
    r"|(?:case|client|customer|hh|household|obs|patient|person|record|resp|respondent|row|sample"
    r"|subj|subject|user)_?(?:id|no|nr|num|number)$"
)
# Names of numbers that may be consecutive and are not identifiers: time, and ranks.
ORDER_NAME = re.compile(
    r"(?:^|_)(?:age|date|day|hour|minute|month|period|quarter|rank|ranking|t|time|week|year|yr)(?:_|$)"
)
YEARS = (1500, 2200)
# Names of survey weights; a plain "weight" may be that of a person or a car, unless its mean is 1
# or its standard deviation above its mean, which bodies and goods of one kind do not reach.
WEIGHT_NAME = re.compile(
    r"(?:^|_)(?:fnlwgt|finalwgt|finwgt|finalwt|finwt|pweight|pwgt|perwt|hhwt|hhwgt|wgt|wgtp|svywt|wtmec2yr"
    r"|wtint2yr|wtss|wtssall|dweight|pspwght|pweight)(?:_|$)"
    r"|(?:survey|sample|sampling|design|final|analysis|person|household|post_?strat\w*)_?(?:weights?|wt|wgt)"
)
PLAIN_WEIGHT_NAME = re.compile(r"(?:^|_)(?:weights?|wt|wts|wght)(?:_|$)")
# A number with at most this many values, all integers, may be a code.
MAX_CODES = 12
# Columns are near-duplicates beyond this correlation on at most SAMPLE rows: other units, rounded.
# Consumption and income of a country, or one indicator in two years, reach 0.999.
SAME, SAMPLE, MAX_COMPARED = 0.9999, 1000, 2000


def text_identifier(name: str, words: tuple, count: np.ndarray) -> str:
    """Why a text column is an identifier or free text; "" if it is not. count: rows of each word.

    Nearly all values occur once, or many do and the column has many values or the name of an
    identifier.
    """
    used, n = np.flatnonzero(count), int(count.sum())
    many = f"{used.size:,} different values in {n:,} rows"
    if ID_NAME.search(_words(name)) and used.size > max(MAX_DISTINCT, n / 3):
        return f"{many}: an identifier"
    alone = used.size > MAX_DISTINCT and np.count_nonzero(count == 1) > ALONE * n
    if used.size <= MAX_UNIQUE or (used.size < NEARLY_ALL * n and not alone):
        return ""
    shown = [str(words[c]) for c in used[:1000]]
    if all(DATE.match(word) for word in shown):
        return f"{many} that look like dates: convert the text to dates (pandas: to_datetime)"
    key = sum(any(c.isdigit() for c in word) for word in shown) > len(shown) / 2
    text = sum(map(len, shown)) > LONG_TEXT * len(shown)
    if not (key or text or used.size > MAX_DISTINCT):
        return ""
    return f"{many}: an identifier or free text"


def number_identifier(name: str, v: np.ndarray) -> str:
    """Why a column of numbers ``v``, none missing, is an identifier; "" if it is not.

    All values are different integers, and either the name is that of an identifier, or they are
    consecutive (row numbers, perhaps shuffled). Different values alone do not make an identifier:
    measurements of few rows often differ.
    """
    n = v.size
    # The first rows rule out almost every column, without sorting it.
    few = v[:MIN_ROWS]
    if n < MIN_ROWS or np.unique(few).size < few.size or (few != np.floor(few)).any():
        return ""
    words = _words(name)
    if ORDER_NAME.search(words):
        return ""
    named = bool(ID_NAME.search(words))
    low, high = float(v.min()), float(v.max())
    consecutive = high - low == n - 1 and not (low >= YEARS[0] and high <= YEARS[1])
    if not (named or consecutive) or (v != np.floor(v)).any() or np.unique(v).size < n:
        return ""
    if consecutive:
        return f"row numbers {format_number(low)} to {format_number(high)}"
    return f"{n:,} different integers in {n:,} rows: an identifier"


def describe_number(name: str, v: np.ndarray, different: np.ndarray) -> tuple:
    """(topic, text) of numbers that may be weights of a survey, or codes of categories.

    v : the values that are known
    different : the distinct ones, sorted
    """
    found = []
    named, mean = _words(name), v.mean()
    weight = WEIGHT_NAME.search(named) or (
        PLAIN_WEIGHT_NAME.search(named) and (0.8 < mean < 1.25 or v.std() > mean)
    )
    if weight and different[0] >= 0 and different.size > MAX_CODES:
        found.append(("weights", f"mean {mean:.4g}"))
    few = 2 < different.size <= MAX_CODES and v.size >= 5 * different.size
    if few and (different == np.floor(different)).all():
        shown = [format_number(x) for x in different]
        shown = shown if len(shown) <= 5 else [*shown[:3], "...", shown[-1]]
        found.append((CODES, ", ".join(shown)))
    return tuple(found)


def _words(name: str) -> str:
    """A name in any spelling as lower-case words: patientID and "patient ID" are patient_id."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[^A-Za-z0-9]+", "_", name).lower()


class Signature:
    """At most SAMPLE evenly spaced rows of a column, for the search of near-duplicates."""

    def __init__(self, values: ColumnValues):
        own = values.numbers if values.codes is None else values.codes.astype(np.float64)
        at = np.linspace(0, own.size - 1, min(own.size, SAMPLE)).astype(np.intp)
        sample = own[at]
        known = ~np.isnan(sample) if values.codes is None else sample >= 0
        different, first, codes = np.unique(
            np.where(known, sample, np.inf), return_index=True, return_inverse=True
        )
        self.key: bytes | None = None
        self.words: list[str] | None = None
        self.scores: np.ndarray | None = None
        if own.size < MIN_ROWS or different.size < 2:
            return
        if different.size <= min(MAX_DISTINCT, sample.size // 3):  # values occur again
            # Values by the order of their first occurrence: equal for columns that are the same
            # but for the names of their values. Missing values keep a code of their own.
            order = np.argsort(np.argsort(first)).astype(np.int16)
            if not known.all():
                order[-1] = -1
            self.key = order[codes].tobytes()
            if values.codes is not None:
                seen = different[np.argsort(first)]
                self.words = [str(values.words[int(c)]) for c in seen if np.isfinite(c)]
        if values.codes is None:
            centred = np.where(known, sample - sample[known].mean(), 0.0)
            length = np.linalg.norm(centred)
            self.scores = centred / length if length > 0 else None


def near_duplicates(signatures: dict[str, Signature]) -> dict[str, list[tuple[str, str]]]:
    """Name of a column -> (topic, text) about an earlier column of which it has the information.

    A column repeats another one if their words are the same or their correlation is nearly 1. If
    only the rows with equal values are the same, the values correspond one to one, as names of
    states and their codes.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    first: dict[bytes, str] = {}
    for name, each in signatures.items():
        other = first.setdefault(each.key, name) if each.key is not None else name
        if other == name:
            continue
        earlier = signatures[other]
        if each.scores is not None and earlier.scores is not None:
            same = abs(each.scores @ earlier.scores) > SAME
        else:
            same = each.words is not None and each.words == earlier.words
        if same:
            found[name] = [("near-duplicate", f"repeats {other!r}")]
        else:
            found[name] = [("one to one", f"its values correspond to those of {other!r}")]
    scored = {n: s.scores for n, s in signatures.items() if s.key is None and s.scores is not None}
    if 1 < len(scored) <= MAX_COMPARED:
        names, Z = list(scored), np.array(list(scored.values()))
        close = np.tril(np.abs(Z @ Z.T) > SAME, -1)
        for later in np.flatnonzero(close.any(axis=1)):
            text = f"repeats {names[np.argmax(close[later])]!r}"
            found[names[later]] = [("near-duplicate", text)]
    return found
