"""From tiles of a matrix, or tables, to the columns of the likelihood and the suspects' values.

A `Reading` is what was learned about the columns. It is sent to the workers of a cluster, and turns
any rows into `Columns` and codes of the suspects.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from .._data.columns import ColumnValues, as_frame, frame_columns, read_column
from .._data.tables import TableBlocks
from .._data.tiled import TiledMatrix
from .._mixture.rows import Columns, Layout, Rows
from .._preprocessing.table_encoder import Recipe
from ._columns import (
    ColumnModel,
    Facts,
    Sample,
    apply_columns,
    as_category,
    facts_of,
    facts_of_matrix,
    learn_columns,
    sample_rows,
)
from ._suspects import NO_SUSPECT, Combinations, Suspect, codes_of, read_suspects

# A matrix with at most this many distinct rows of suspects is summarised by them; otherwise, as for
# a numeric suspect of many values, their columns are read whole.
MAX_DISTINCT = 2**18


class Reading:
    """How rows of an array are read."""

    def __init__(
        self, columns: list[ColumnModel], combinations: Combinations, names: list[str],
        kinds: dict[int, str],
    ):  # fmt: skip
        self.columns, self.combinations = columns, combinations
        self.names, self.kinds = names, kinds
        self.incomplete = False  # whether numbers have missing values in the fit

    def __call__(self, tile: np.ndarray) -> tuple[Columns, np.ndarray]:
        """Columns, and codes (n, S) of the suspects, -1 where unknown."""
        used = {
            c.source
            for c in self.columns
            if c.kind == "category" or (c.kind == "flag" and not c.numeric)
        }
        used |= {source for s in self.combinations.suspects for source in s.sources}
        values = {}
        for source in used:
            values[source] = _column(tile[:, source].astype(np.float64), self.kinds.get(source))
        codes = codes_of(self.combinations.suspects, values, self.names, len(tile))
        numbers = [c for c in self.columns if c.kind == "number"]
        flags = [c for c in self.columns if c.kind == "flag"]
        X = _taken(tile, numbers)
        X -= np.array([c.mean for c in numbers])
        X /= np.array([c.sd for c in numbers])
        rest = [c for c in self.columns if c.source in values]
        other = apply_columns(rest, values, len(tile))
        if any(not c.numeric for c in flags):
            B = np.empty((len(tile), len(flags)))
            numeric = np.array([c.numeric for c in flags])
            B[:, ~numeric] = other.flags
            B[:, numeric] = _as_flags(tile, [c for c in flags if c.numeric])
        else:
            B = _as_flags(tile, flags)
        return Columns(X, np.array([c.floor for c in numbers]), B, other.categories), codes

    def rows(self, tile: np.ndarray, a: np.ndarray, layout: Layout) -> Rows:
        """Rows of positive weight of a tile."""
        if not (a > 0).all():
            tile, a = tile[a > 0], a[a > 0]
        columns, codes = self(tile)
        level = self.combinations.level_of(codes)
        return Rows(columns, level, layout.n_levels, a, 0, layout=layout)


def _column(x: np.ndarray, kind: str | None) -> ColumnValues:
    values = ColumnValues("number", x, None, ())
    return as_category(values) if kind == "category" else values


def _taken(tile: np.ndarray, columns: list[ColumnModel]) -> np.ndarray:
    return np.take(tile, [c.source for c in columns], axis=1).astype(np.float64)


def _as_flags(tile: np.ndarray, columns: list[ColumnModel]) -> np.ndarray:
    """0 and 1 for the lower and the higher value, nan for others."""
    x = _taken(tile, columns)
    low, high = (np.array([float(c.words[i]) for c in columns]) for i in (0, 1))
    flags = (x == high).astype(np.float64)
    flags[(x != high) & (x != low)] = np.nan
    return flags


class Encoded(NamedTuple):
    matrix: np.ndarray


class TableReading(Reading):
    """How rows of a table are read: as a matrix of the suspects' codes, standardised numbers, flags
    and codes of categories, nan where missing, of which tiles are taken."""

    dtype = "float64"

    @property
    def sources_(self) -> np.ndarray:
        """For each column of the matrix its source, as an encoder has it."""
        ordered = chain.from_iterable(self._kind(kind) for kind in ("number", "flag", "category"))
        firsts = [s.sources[0] if s.sources else -1 for s in self.combinations.suspects]
        return np.array(firsts + [c.source for c in ordered])

    def _kind(self, kind: str) -> list[ColumnModel]:
        return [c for c in self.columns if c.kind == kind]

    def matrix(self, values: Any, n: int) -> np.ndarray:
        codes = codes_of(self.combinations.suspects, values, self.names, n)
        columns = apply_columns(self.columns, values, n)
        own = [np.where(x < 0, np.nan, x)[:, None] for x, _ in columns.categories]
        return np.hstack([codes, columns.numbers, columns.flags, *own])

    def _encode(self, frame: Any) -> Encoded:
        """A block of a table, as an encoder does it."""
        frame = as_frame(frame)
        columns = frame_columns(frame)
        values = [
            read_column(columns[name], name, self.kinds.get(i)) for i, name in enumerate(self.names)
        ]
        return Encoded(self.matrix(values, len(frame)))

    def __call__(self, tile: np.ndarray) -> tuple[Columns, np.ndarray]:
        ends = np.cumsum(
            [len(self.combinations.suspects), len(self._kind("number")), len(self._kind("flag"))]
        )
        codes, numbers, flags, rest = np.split(tile, ends, axis=1)
        floor = np.array([c.floor for c in self._kind("number")])
        categories = [
            (np.where(np.isnan(x), -1, x).astype(np.int64), len(c.words))
            for x, c in zip(rest.T, self._kind("category"))
        ]
        return Columns(numbers, floor, flags, categories), codes.astype(np.intp)


# -------------------------------------------------------------------------------------- learning
def read_matrix(
    matrix: TiledMatrix, a: np.ndarray, names: list[str], suspects: np.ndarray,
    kinds: dict[int, str],
) -> Reading:  # fmt: skip
    """Learn the columns of a matrix in tiles: a pass for the suspects, two for the others."""
    found, combinations = [NO_SUSPECT], None
    if suspects.size:
        X, weight = _distinct_rows(matrix, a, suspects)
        own: dict[int, ColumnValues] = {}
        for j, source in enumerate(suspects.tolist()):
            own[source] = _column(np.ascontiguousarray(X[:, j]), kinds.get(source))
        n_used = a.size if a.strides == (0,) else int(np.count_nonzero(a))
        found = read_suspects(own, names, suspects, weight, kinds, n_used)
        codes = codes_of(found, own, names, len(X))
        combinations = Combinations(found, codes[weight > 0], weight[weight > 0])
    else:
        total = matrix.total(matrix.map(_weight, a, additive=True))[0]
        combinations = Combinations(found, np.zeros((1, 1), np.intp), np.array([float(total)]))
    which = sample_rows(a)
    few = dense_rows(matrix, which)
    facts = facts_of_matrix(matrix, a, few)
    for source in [s for s, kind in kinds.items() if kind == "category" and s not in suspects]:
        x = matrix.columns(np.array([source]))[:, 0].astype(np.float64)
        facts[source] = facts_of(_column(x, "category"), a, which)
    reading = Reading([], combinations, names, kinds)
    level = _coarse(found, reading(few)[1])
    sample = Sample(which, np.ascontiguousarray(a[which]), level)
    reading.columns = learn_columns(facts, names, suspects, sample, kinds)
    reading.incomplete = _incomplete(reading.columns, facts)
    return reading


def read_values(
    values: Any, facts: list[Facts], a: np.ndarray, names: list[str], suspects: np.ndarray,
    kinds: dict[int, str], recipes: list[Recipe],
) -> TableReading:  # fmt: skip
    """Learn the columns of a table; ``values`` (by source) needs those of the suspects only."""
    found, used = [NO_SUSPECT], a > 0
    if suspects.size:
        found = read_suspects(values, names, suspects, a, kinds)
    codes = codes_of(found, values, names, a.size)
    combinations = Combinations(found, codes[used], a[used])
    which = sample_rows(a)
    sample = Sample(which, np.ascontiguousarray(a[which]), _coarse(found, codes[which]))
    columns = learn_columns(facts, names, suspects, sample, kinds, recipes)
    reading = TableReading(columns, combinations, names, kinds)
    reading.incomplete = _incomplete(columns, facts)
    return reading


def _incomplete(columns: list[ColumnModel], facts: list[Facts]) -> bool:
    return any(not facts[c.source].whole for c in columns if c.kind == "number")


def read_table_blocks(
    source: TableBlocks, encoder: Any, a: np.ndarray, suspects: np.ndarray
) -> tuple[dict[int, ColumnValues], list[Facts]]:
    """Fit the encoder to tables that are read block by block, whole columns a few at a time;
    returns the columns of the suspects and the facts of all columns."""
    kept: dict[int, ColumnValues] = {}
    facts: list[Facts] = []
    which = sample_rows(a)

    def noted() -> Any:
        for at, values in enumerate(source._whole_columns(encoder)):
            facts.append(facts_of(values, a, which))
            if at in suspects:
                kept[at] = values
            yield values

    encoder._fit_columns(source.columns, noted(), a)
    return kept, facts


def _coarse(suspects: list[Suspect], codes: np.ndarray) -> np.ndarray:
    return suspects[0].shown_of(codes[:, 0])


def _weight(tile: Any, a: np.ndarray) -> tuple:
    return (np.float64(a.sum()),)


def dense_rows(matrix: TiledMatrix, which: np.ndarray) -> np.ndarray:
    found = matrix.select(which).X
    found = found.toarray() if hasattr(found, "toarray") else found
    return np.asarray(found, dtype=np.float64)


def find_layout(
    matrix: TiledMatrix, a: np.ndarray, reading: Reading, part: Columns, max_patterns: int
) -> Layout:
    """Columns with missing values and patterns of them, of the rows of positive weight."""
    design = reading.combinations.design()
    g = part.numbers.shape[1]
    always, known = np.ones(g, bool), {np.ones(g, bool).tobytes()}
    exact = True
    if reading.incomplete:
        known = set()
        for own, found in matrix.map(_patterns, a, coefs=(reading, max_patterns)):
            always &= own
            exact = exact and found is not None and len(known) <= max_patterns
            known.update(found if exact else ())
    patterns = np.array([np.frombuffer(one, bool) for one in sorted(known)])
    exact = exact and len(known) <= max_patterns
    no_flags = np.zeros(0, np.intp)
    mask_of = np.flatnonzero(~always)
    return Layout(part, len(design.codes), design, mask_of, no_flags, patterns if exact else None)


def _patterns(tile: np.ndarray, a: np.ndarray, coefs: tuple) -> tuple:
    """Numbers that are always known, and patterns of known numbers (None: too many)."""
    reading, most = coefs
    known = ~np.isnan(reading(tile[a > 0])[0].numbers)
    found = np.unique(known, axis=0) if len(known) else known
    return known.all(axis=0), [one.tobytes() for one in found] if len(found) <= most else None


def _distinct_rows(
    matrix: TiledMatrix, a: np.ndarray, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Distinct rows of some columns with their weights, or all rows where there are too many."""
    rows: list[np.ndarray] = []
    weights: list[np.ndarray] = []
    for part, weight in matrix.map(_distinct, a, coefs=columns):
        rows.append(part)
        weights.append(weight)
        if sum(map(len, rows)) > 2 * MAX_DISTINCT:
            merged, total = _merged(np.concatenate(rows), np.concatenate(weights))
            rows, weights = [merged], [total]
            if len(merged) > MAX_DISTINCT:
                return matrix.columns(columns).astype(np.float64), np.asarray(a)
    merged, total = _merged(np.concatenate(rows), np.concatenate(weights))
    return merged.view(np.float64), total


def _distinct(tile: np.ndarray, a: np.ndarray, columns: np.ndarray) -> tuple:
    """The bits of distinct rows, and their weights."""
    x = np.ascontiguousarray(tile[a > 0][:, columns], dtype=np.float64) + 0.0  # -0 is 0
    x[np.isnan(x)] = np.nan
    return _merged(x.view(np.int64), a[a > 0])


def _merged(bits: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if bits.shape[1] == 1:
        found, place = np.unique(bits[:, 0], return_inverse=True)
        return found[:, None], np.bincount(place, weights=weight, minlength=len(found))
    found, place = np.unique(bits, axis=0, return_inverse=True)
    return found, np.bincount(place.ravel(), weights=weight, minlength=len(found))
