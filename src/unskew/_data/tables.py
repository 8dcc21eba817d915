"""Tables read block by block, and detection of out-of-core input."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from .._io import FileError
from .._validation import abbreviate, is_integer
from .columns import (
    ColumnValues,
    _numbers_as_categories,
    as_frame,
    column_names,
    frame_columns,
    numbers_in_text,
    read_column,
)
from .sources import (
    Blocks,
    CachedBlocks,
    NpyFile,
    ParquetReader,
    check_block,
    is_reader,
    source_name,
    storage_dtype,
)

# Maximum bytes of columns in memory at a time (at least one column), when an encoder is fitted to a
# table that is read block by block.
COLUMN_BATCH_BYTES = 2**27


def open_source(X: Any) -> NpyFile | Blocks | TableBlocks | None:
    """Open X as a file or blocks where its rows are not in memory; None where they are.

    X: path of a .npy or .parquet, np.memmap, or a reader: ``n_blocks``, ``read(i)`` (2-D array or
    table) and, optionally, ``sizes`` (rows of each block, which saves a pass), ``columns``,
    ``name``, ``cache`` (for tables: folder for encoded blocks), ``thread_safe`` (True: threads may
    call ``read`` at the same time, and no block is overwritten later).
    """
    if isinstance(X, (str, os.PathLike)):
        name = os.fspath(X)
        if name.endswith(".npy"):
            return NpyFile.open(name)
        if name.endswith((".parquet", ".pq")) or os.path.isdir(name):
            return TableBlocks(ParquetReader(name))
        raise FileError(
            f"{name}: X as a path should be a .npy or .parquet file; read other tables first, or "
            "pass a reader with n_blocks and read(i)"
        )
    if isinstance(X, np.memmap) and X.ndim == 2:
        return NpyFile.of_memmap(X)
    if not is_reader(X):
        return None
    n_blocks, name = X.n_blocks, source_name(X)
    if not is_integer(n_blocks) or n_blocks < 1:
        raise ValueError(f"{name}: n_blocks={n_blocks!r} should be an integer >= 1")
    first = X.read(0)
    if as_frame(first) is not None:
        return TableBlocks(X)
    return open_matrix_blocks(X, name)


def open_matrix_blocks(reader: Any, name: str) -> Blocks:
    """The arrays of a reader; a first pass determines their sizes if the reader has none."""
    sizes, kinds, d = [], [], None
    reported = reported_sizes(reader, name)
    for number in range(1 if reported is not None else reader.n_blocks):
        block = check_block(reader.read(number), name, number)
        if d is not None and block.shape[1] != d:
            raise ValueError(
                f"{name}, block {number}: has {block.shape[1]} columns but block 0 has {d}; all "
                "blocks should have the same"
            )
        d = block.shape[1]
        sizes.append(block.shape[0])
        kinds.append(storage_dtype(block.dtype, name))
    dtype = kinds[0] if len(set(kinds)) == 1 else np.dtype(np.float64)
    assert d is not None
    sizes = sizes if reported is None else reported
    return Blocks(reader.read, sizes, d, dtype, name, not is_thread_safe(reader))


def reported_sizes(reader: Any, name: str) -> list[int] | None:
    """Validated ``sizes`` of the reader (rows of each block); None where it has none."""
    reported = getattr(reader, "sizes", None)
    if reported is None:
        return None
    reported = list(reported)
    for number, size in enumerate(reported):
        if not is_integer(size) or size < 0:
            raise ValueError(f"{name}: sizes[{number}]={size!r} should be an integer >= 0")
    if len(reported) != reader.n_blocks:
        raise ValueError(
            f"{name}: sizes has {len(reported)} numbers but n_blocks={reader.n_blocks}; each block "
            "should have one"
        )
    return [int(size) for size in reported]


def is_thread_safe(reader: Any) -> bool:
    """Whether threads may call ``read`` at the same time: only where ``thread_safe`` is set."""
    return bool(getattr(reader, "thread_safe", False))


class TableBlocks:
    """Vertically stacked tables of a reader. ``matrix(encoder)`` returns them as encoded blocks."""

    def __init__(self, reader: Any):
        self.reader, self.name = reader, source_name(reader)
        self.takes_columns = "columns" in inspect.signature(reader.read).parameters
        reported = reported_sizes(reader, self.name)
        self.columns = column_names(self.frame(0))
        if reported is None:
            reported = [len(self.frame(number)) for number in range(reader.n_blocks)]
        self.sizes = list(reported)
        self.shape = (int(sum(self.sizes)), len(self.columns))
        if 0 in self.shape:
            raise ValueError(
                f"{self.name} has {self.shape[0]} rows and {self.shape[1]} columns; both should be "
                ">= 1"
            )

    def frame(self, number: int, columns: list[str] | None = None) -> Any:
        """One block as a narwhals table; raises if its columns are not those of the first."""
        if columns is not None and self.takes_columns:
            return as_frame(self.reader.read(number, columns=columns))
        frame = as_frame(self.reader.read(number))
        if frame is None:
            raise TypeError(f"{self.name}, block {number}: is not a table, but block 0 is")
        if number and sorted(column_names(frame)) != sorted(self.columns):
            raise ValueError(
                f"{self.name}, block {number}: has the columns {abbreviate(column_names(frame))} "
                f"but block 0 has {abbreviate(self.columns)}; all blocks should have the same"
            )
        return frame

    def fit_encoder(self, encoder: Any, a: np.ndarray) -> None:
        """Fit the encoder on whole columns, a few at a time; same result as in memory."""
        encoder._fit_columns(self.columns, self._whole_columns(encoder), a)

    def _whole_columns(self, encoder: Any) -> Iterator[ColumnValues]:
        batch = max(1, COLUMN_BATCH_BYTES // (8 * self.shape[0]))
        for first in range(0, len(self.columns), batch):
            names = self.columns[first : first + batch]
            parts: dict[str, list[ColumnValues]] = {name: [] for name in names}
            for number in range(self.reader.n_blocks):
                series = frame_columns(self.frame(number, names))
                for name in names:
                    asked = (encoder.kinds or {}).get(name)
                    with block_errors(self.name, number):
                        # Other numbers than integers are converted to categories after all blocks
                        # have been read.
                        dtype = series[name].dtype
                        exact = asked == "number" or dtype.is_integer() or dtype == nw.String
                        read = read_column(series[name], name, asked if exact else None)
                    parts[name].append(read)
            for name in names:
                asked = (encoder.kinds or {}).get(name)
                category = asked == "category"
                own = parts.pop(name)
                if category and any(part.kind == "text" for part in own):
                    own = [as_category(part) for part in own]
                whole = concat_values(own, name, self.name)
                if asked is None:
                    whole = numbers_in_text(whole)
                yield as_category(whole) if category else whole

    def matrix(self, encoder: Any) -> Blocks:
        """Blocks of encoded rows."""
        dtype = getattr(encoder, "dtype", "float64")
        load: Any = EncodedBlock(self.reader, encoder, self.name)
        cache = getattr(self.reader, "cache", None)
        if cache is not None:
            load = CachedBlocks(load, cache)
        exclusive = not is_thread_safe(self.reader)
        return Blocks(load, self.sizes, encoder.sources_.size, dtype, self.name, exclusive)


class EncodedBlock:
    """Reads and encodes block i. A class, so that it can be sent to another process."""

    def __init__(self, reader: Any, encoder: Any, name: str):
        self.reader, self.encoder, self.name = reader, encoder, name

    def __call__(self, number: int) -> np.ndarray:
        with block_errors(self.name, number):
            return self.encoder._encode(self.reader.read(number)).matrix


@contextmanager
def block_errors(name: str, number: int):
    """Prefix the messages of errors with the name of the source and the block number."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}, block {number}: {error}") from error


def concat_values(parts: list[ColumnValues], name: str, reader: str) -> ColumnValues:
    """One column of all blocks. A block in which all values are missing matches every kind."""

    def known(part: ColumnValues) -> bool:
        if part.numbers is not None:
            return not np.isnan(part.numbers).all()
        return bool((part.codes >= 0).any())

    informative = [number for number, part in enumerate(parts) if known(part)] or [0]
    first = parts[informative[0]]
    for number in informative[1:]:
        other = parts[number]
        same_levels = first.kind != "ordered" or other.words == first.words
        if other.kind != first.kind or not same_levels:
            levels = "" if same_levels else f" with levels {abbreviate(other.words)}"
            raise ValueError(
                f"{reader}, block {number}: column {name!r} holds a {other.kind}{levels} but a "
                f"{first.kind} in block {informative[0]}; all blocks should have the same type"
            )
    sizes = [part.codes.size if part.numbers is None else part.numbers.size for part in parts]
    if first.numbers is not None:
        numbers_ = [
            np.full(size, np.nan) if part.numbers is None else part.numbers
            for part, size in zip(parts, sizes)
        ]
        return ColumnValues(first.kind, np.concatenate(numbers_), None, first.words)
    words = first.words
    if first.kind == "text":
        words = sort_words({word for number in informative for word in parts[number].words})
    place = {word: at for at, word in enumerate(words)}
    codes = []
    for number, (part, size) in enumerate(zip(parts, sizes)):
        if number not in informative:
            codes.append(np.full(size, -1, dtype=np.int64))
        else:
            # Position -1 is the missing value.
            codes.append(np.array([*(place[word] for word in part.words), -1])[part.codes])
    marks = tuple(sorted({mark for part in parts for mark in part.marks}))
    n_marked = sum(part.n_marked for part in parts)
    declared = any(part.declared for part in parts)
    return ColumnValues(first.kind, None, np.concatenate(codes), words, marks, n_marked, declared)


def sort_words(words: set[str]) -> tuple[str, ...]:
    """Words in the order of a column in memory: numbers by value, other words as text."""
    try:
        return tuple(sorted(words, key=lambda word: float(word) if "." in word else int(word)))
    except ValueError:
        return tuple(sorted(words))


def as_category(values: ColumnValues) -> ColumnValues:
    """A column that is a category according to ``kinds``."""
    if values.numbers is None:
        return values
    if values.kind == "ordered":
        codes = np.where(np.isnan(values.numbers), -1, values.numbers).astype(np.int64)
        return ColumnValues("text", None, codes, values.words)
    return _numbers_as_categories(values.numbers)
