"""Known shares of the population: {column: {value: share}} to indicators and target shares."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._balance import Treatments
from .._data.tiled import TiledMatrix
from .._terms import Margins
from .._validation import abbreviate, find_columns
from .design import Design, indicators
from .table_encoder import TableEncoder

# Published shares are rounded: maximum difference of the sum of a complete list from 1.
ROUNDING = 0.02


class KnownShares(NamedTuple):
    """One column: indicators of its values and of missing values, and the target shares."""

    name: Any
    source: int
    values: tuple
    treatments: Treatments
    unknown: Treatments | None
    wanted: np.ndarray


def read_margins(
    margins: dict, design: Design, encoder: TableEncoder | None, names: Any, d: int
) -> list[KnownShares]:
    """Validate and resolve ``margins``; errors name the column, the value and the rule."""
    known = []
    for name, shares in margins.items():
        source = int(find_columns([name], names, d, "margins")[0])
        for value, share in shares.items():
            ok = isinstance(share, (int, float, np.number)) and not isinstance(share, bool)
            if not ok or not 0 <= share <= 1:
                raise ValueError(f"margins[{name!r}][{value!r}]={share!r} should be in [0, 1]")
        places = [_place(design, encoder, name, source, value) for value in shares]
        unknown = None
        if None not in shares and encoder is not None:
            try:
                unknown = _intervals(design, [encoder._interval(source, None)])
            except ValueError:  # nothing is missing
                unknown = None
        treatments = _intervals(design, places)
        wanted = np.array(list(shares.values()), dtype=np.float64)
        wanted = _check_sum(name, shares, wanted, design, treatments, unknown)
        known.append(KnownShares(name, source, tuple(shares), treatments, unknown, wanted))
    return known


def _place(design: Design, encoder: Any, name: Any, source: int, value: Any) -> tuple:
    if encoder is not None:
        try:
            return encoder._interval(source, value)
        except ValueError as error:
            raise ValueError(f"margins[{name!r}]: {error}") from error
    columns = design.stats
    if not columns.two_valued[source]:
        raise ValueError(
            f"margins[{name!r}]: column {source} of an array should have two values; pass a table "
            "for categories"
        )
    low, high = columns.low[source], columns.high[source]
    if value not in (low, high):
        raise ValueError(
            f"margins[{name!r}]: {value!r} is not a value of the column; values: {low:g}, {high:g}"
        )
    half = low + (high - low) / 2
    return (source, half, np.inf) if value == high else (source, -np.inf, half)


def _intervals(design: Design, places: list[tuple]) -> Treatments:
    column = np.array([k for k, _, _ in places], dtype=np.intp)
    shift = np.zeros(design.rows.d) if design.rows.shift is None else design.rows.shift
    missing_indicator = design.column_map.missing_indicator[column]
    return Treatments(
        column,
        np.array([low for _, low, _ in places]) - shift[column],
        np.array([high for _, _, high in places]) - shift[column],
        False,
        missing_indicator if (missing_indicator >= 0).any() else None,
    )


def _check_sum(name, shares, wanted, design, treatments, unknown) -> np.ndarray:
    T = indicators(design.rows, treatments)
    elsewhere = design.a.copy()
    elsewhere[np.asarray(T.sum(axis=1)).ravel() > 0] = 0.0
    if unknown is not None:
        elsewhere *= 1.0 - indicators(design.rows, unknown).toarray()[:, 0]
    complete, total = not elsewhere.any(), float(wanted.sum())
    given = (
        f"margins[{name!r}]={abbreviate([f'{k}: {v:g}' for k, v in shares.items()], quoted=False)}"
    )
    if complete:
        if abs(total - 1) > ROUNDING:
            raise ValueError(
                f"{given} has all values of the column and sums to {total:g}; it should sum to 1"
            )
        wanted = wanted / total
    elif total > 1 - 1e-9:
        raise ValueError(
            f"{given} sums to {total:g} but does not have all values of the column; "
            "shares of all values should sum to 1"
        )
    weight = T.T @ design.a
    for j in np.flatnonzero((weight == 0) & (wanted > 0))[:1]:
        raise ValueError(
            f"margins[{name!r}][{list(shares)[j]!r}]={wanted[j]:g} cannot be reached: no row of "
            "positive weight has that value"
        )
    return wanted


def make_margins(rows: TiledMatrix, known: list[KnownShares]) -> Margins:
    T = sp.hstack([indicators(rows, each.treatments) for each in known], format="csr")
    there = []
    for each in known:
        if each.unknown is None:
            there.append(sp.csr_array(np.ones((rows.n, 1))))
        else:
            there.append(sp.csr_array(1.0 - indicators(rows, each.unknown).toarray()))
    variable = np.repeat(np.arange(len(known)), [len(each.treatments) for each in known])
    wanted = np.concatenate([each.wanted for each in known])
    return Margins(T, sp.hstack(there, format="csr"), variable, wanted)
