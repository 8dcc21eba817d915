"""The mathematics of DCKM: what each term of the objective is, as sums over rows that add.

Glossary (letters of the paper where it has one)
    X        n x d   data                       T        n x t   treatment indicators in {0, 1}
    a        n       design weights             m        n       learned multipliers
    w        n       weights, w = a m           W        sum(w)
    S        d x t   X' diag(w) T               x        d       X' w
    s, c     t       T' w and W - s: total weight of the treated and of the control group
    D        d x t   mean of feature k among the treated of j minus its mean among the controls
    C        K x d   centres                    e        n       squared distance to the own centre

A term knows no estimator and no file. It is given ``rows``, which hands out tiles of X through
``rows.map(kernel, ...)`` in a fixed order; partial sums are added in that order, in float64, so the
result does not depend on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from scipy.linalg import get_blas_funcs

# A d x t matrix beyond this many entries is not formed (2**24 float64 = 128 MB each).
LARGEST_MATRIX = 2**24
# Columns of a side that is made dense without a second thought, tile by tile.
NARROW = 64
# Relative standard error that the number of random probes is chosen for.
PROBE_ERROR = 0.1


class Term(Protocol):
    """What the solver asks of a balance loss."""

    form: str

    def value(self, w: np.ndarray) -> float: ...

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]: ...


@dataclass(frozen=True)
class Treatments:
    """Treatment j is ``above[j] < X[:, column[j]] <= upto[j]``; a two-valued column needs one.

    ``as_is`` says that the columns are 0/1 as they stand, so that T need not be computed.
    """

    column: np.ndarray
    above: np.ndarray
    upto: np.ndarray
    as_is: bool = False

    def __len__(self) -> int:
        return self.column.size

    def take(self, which: np.ndarray) -> Treatments:
        return Treatments(self.column[which], self.above[which], self.upto[which], self.as_is)

    def of(self, tile: np.ndarray) -> np.ndarray:
        """Indicators of a dense tile, in the dtype of the tile."""
        columns = take_columns(tile, self.column)
        if self.as_is:
            return columns
        treated = columns > self.above
        if np.isfinite(self.upto).any():
            treated &= columns <= self.upto
        return treated.astype(tile.dtype)

    def of_column_values(self, values: np.ndarray) -> np.ndarray:
        """Indicators when column j of ``values`` already holds X[:, column[j]]."""
        return ((values > self.above) & (values <= self.upto)).astype(values.dtype)

    def of_sparse(self, tile: sp.csr_array) -> SparseIndicators:
        """Indicators of a CSR tile as (value where X is 0) + (correction at stored entries)."""
        base = ((self.above < 0) & (self.upto >= 0)).astype(tile.dtype)
        entries = tile.tocoo()
        # Treatments are listed column by column; the b-th of a column is at first + b.
        order = np.argsort(self.column, kind="stable")
        count = np.bincount(self.column, minlength=tile.shape[1])
        first = np.concatenate([[0], np.cumsum(count)[:-1]])
        rows, cols, data = [], [], []
        for b in range(int(count.max(initial=0))):
            has = count[entries.col] > b
            j = order[first[entries.col[has]] + b]
            v = entries.data[has]
            change = ((v > self.above[j]) & (v <= self.upto[j])).astype(tile.dtype) - base[j]
            keep = change != 0
            rows.append(entries.row[has][keep])
            cols.append(j[keep])
            data.append(change[keep])
        shape = (tile.shape[0], len(self))
        if not rows:
            return SparseIndicators(base, sp.csr_array(shape, dtype=tile.dtype))
        triplets = (np.concatenate(data), (np.concatenate(rows), np.concatenate(cols)))
        return SparseIndicators(base, sp.csr_array(triplets, shape=shape))


class SparseIndicators(NamedTuple):
    """T = 1 base' + correction, for CSR tiles: the few operations that the probe form needs."""

    base: np.ndarray
    correction: sp.csr_array

    def dense(self) -> np.ndarray:
        return self.correction.toarray() + self.base

    def times(self, Z: np.ndarray) -> np.ndarray:
        return self.correction @ Z + self.base @ Z

    def transposed_times(self, V: np.ndarray) -> np.ndarray:
        return self.correction.T @ V + np.multiply.outer(self.base, V.sum(0))

    def products(self, F: sp.csr_array, k: np.ndarray, j: np.ndarray) -> sp.csr_array:
        """Rows x pairs matrix F[:, k] * T[:, j]."""
        Fk = F[:, k]
        return sp.csr_array(Fk.multiply(self.correction[:, j]) + Fk.multiply(self.base[j]))


class DenseIndicators(NamedTuple):
    """The same operations for a dense tile."""

    T: np.ndarray

    def times(self, Z: np.ndarray) -> np.ndarray:
        return self.T @ Z

    def transposed_times(self, V: np.ndarray) -> np.ndarray:
        return self.T.T @ V

    def products(self, F: np.ndarray, k: np.ndarray, j: np.ndarray) -> np.ndarray:
        return F[:, k] * self.T[:, j]


@dataclass(frozen=True)
class Pairs:
    """A rectangle of D: features x treatments, less the masked pairs.

    features    columns of X that are the k of D[k, j]
    treatments  the j of D[k, j]
    masked      (k, j) positions inside the rectangle whose two sides come from one source feature
    scale       row k of D is multiplied by it (1 / starting standard deviation, or 1)
    centre      a value near the mean of each feature, for the form that multiplies rows
    gap         per feature: larger minus smaller value where it is two-valued, nan otherwise
    symmetric   all features are two-valued and are the treatments themselves, in order
    """

    features: np.ndarray
    treatments: Treatments
    masked: tuple[np.ndarray, np.ndarray]
    scale: np.ndarray
    centre: np.ndarray
    gap: np.ndarray
    symmetric: bool = False

    @property
    def n_pairs(self) -> int:
        return self.features.size * len(self.treatments) - self.masked[0].size


def take_columns(tile: Any, columns: np.ndarray) -> Any:
    """Columns of a tile; a view where they are a run without gaps."""
    if columns.size and (np.diff(columns) == 1).all():
        if columns.size == tile.shape[1]:
            return tile
        return tile[:, columns[0] : columns[-1] + 1]
    return tile[:, columns]


def group_rates(s: np.ndarray, W: float) -> tuple[np.ndarray, np.ndarray]:
    """1/s and 1/(W - s); both 0 for a one-sided treatment, which then contributes nothing.

    One-sided is meant to rounding. s is summed in float64 also for float32 data: W - s must be
    right for a treatment that all rows but a few have.
    """
    c = W - s
    nothing = 64 * np.finfo(np.float64).eps * W
    two_sided = (s > nothing) & (c > nothing)
    inverse_s = np.divide(1.0, s, out=np.zeros_like(s), where=two_sided)
    inverse_c = np.divide(1.0, c, out=np.zeros_like(c), where=two_sided)
    return inverse_s, inverse_c


def sum_of_squares(D: np.ndarray) -> float:
    """||D||^2, row by row in the dtype of D, then in float64."""
    return float(np.einsum("kj,kj->k", D, D).sum(dtype=np.float64))


def add_up(parts: Any) -> list[Any]:
    """Sum tuples of arrays in the order in which they come, in float64."""
    total: list[Any] = []
    for part in parts:
        if not total:
            total = [np.array(p, dtype=np.float64) for p in part]
        else:
            for t, p in zip(total, part):
                t += p
    return total


# --------------------------------------------------------------------------------------------
# The balance loss in its three forms


class PrimalBalance:
    """balance(w) = sum of D**2 from the d x t sums S = X' diag(w) T.

    D[k, j]  = scale_k (S_kj (1/s_j + 1/c_j) - x_k / c_j), 0 where masked
    gradient = per row i  sum_j T_ij ((X Q)_ij (1/s_j + 1/c_j) + v_j) - X_i . h + const
               Q = 2 D scale,  p_j = sum_k Q_kj S_kj / s_j,  q_j = sum_k Q_kj (x_k - S_kj) / c_j
               v_j = -(p_j / s_j + q_j / c_j),  h = Q (1/c),  const = sum_j q_j / c_j
    Cost: one product of 2 n d t operations for the value, one more for the gradient. Sums over
    tiles are in float64; the d x t matrices made of them are in the dtype of the data.
    """

    form = "primal"

    def __init__(self, rows: Any, pairs: Pairs) -> None:
        self.rows, self.pairs = rows, pairs

    def _sums(self, tile: np.ndarray, w: np.ndarray) -> tuple:
        F = take_columns(tile, self.pairs.features)
        T = self.pairs.treatments.of(tile)
        return F.T @ (T * w[:, None].astype(T.dtype)), w @ T, w @ F

    def _gradient(self, tile: np.ndarray, message: tuple) -> np.ndarray:
        Q, v, h, const = message
        F = take_columns(tile, self.pairs.features)
        T = self.pairs.treatments.of(tile)
        G = F @ Q
        G += v
        return np.einsum("ij,ij->i", G, T) - F @ h + const

    def _total(self, w: np.ndarray) -> list[Any]:
        """S (in the dtype of the data), s and x of all rows."""
        parts = self.rows.map(self._sums, w)
        S, *vectors = add_up(parts) if len(self.rows.bounds) > 1 else next(iter(parts))
        return [S.astype(self.rows.dtype, copy=False), *(v.astype(np.float64) for v in vectors)]

    def _contrast(self, w: np.ndarray) -> tuple:
        S, s, x = self._total(w)
        inverse_s, inverse_c = group_rates(s, float(w.sum()))
        dtype = self.rows.dtype
        D = S * (inverse_s + inverse_c).astype(dtype)
        D -= np.multiply.outer(x.astype(dtype), inverse_c.astype(dtype))
        D *= self.pairs.scale.astype(dtype)[:, None]
        D[self.pairs.masked] = 0.0
        return D, S, x, inverse_s, inverse_c

    def value(self, w: np.ndarray) -> float:
        return sum_of_squares(self._contrast(w)[0])

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        D, S, x, inverse_s, inverse_c = self._contrast(w)
        value = sum_of_squares(D)
        dtype = self.rows.dtype
        Q = D
        Q *= (2.0 * self.pairs.scale).astype(dtype)[:, None]
        QS = np.einsum("kj,kj->j", Q, S).astype(np.float64)
        p = QS * inverse_s
        q = (x @ Q - QS) * inverse_c
        h = Q @ inverse_c
        Q *= (inverse_s + inverse_c).astype(dtype)
        v = -(p * inverse_s + q * inverse_c)
        return value, self._row_gradient(self._message(Q, v, h, float(q @ inverse_c)))

    def _row_gradient(self, message: tuple) -> np.ndarray:
        return self.rows.gather(self._gradient, message=message)

    def _message(self, Q: np.ndarray, v: np.ndarray, h: np.ndarray, const: float) -> tuple:
        dtype = self.rows.dtype
        return Q, v.astype(dtype), h.astype(dtype), const


class SymmetricPrimalBalance(PrimalBalance):
    """PrimalBalance where the features are the treatments: every column is two-valued.

    With x_k = low_k + gap_k T_k, D is gap_k times D of the indicators, so T alone is read, S is
    symmetric (half the operations: a rank-k update of sqrt(w) T) and s is its diagonal. The
    gradient's T_i Q T_i' sees only Q + Q', of which one triangle is enough (half again).
    """

    def __init__(self, rows: Any, pairs: Pairs) -> None:
        super().__init__(rows, replace(pairs, scale=pairs.scale * pairs.gap))
        self.triangle_times = get_blas_funcs("trmm", dtype=rows.dtype)

    def _sums(self, tile: np.ndarray, w: np.ndarray) -> tuple:
        T = self.pairs.treatments.of(tile)
        wT = T * np.sqrt(w)[:, None].astype(T.dtype)
        return (wT.T @ wT, w @ T)

    def _gradient(self, tile: np.ndarray, message: tuple) -> np.ndarray:
        lower, v, _, const = message
        T = self.pairs.treatments.of(tile)
        # BLAS reads a C-ordered matrix as its transpose; it multiplies a copy of T in place.
        G = self.triangle_times(1.0, lower.T, T.T, lower=1).T
        G += v
        return np.einsum("ij,ij->i", G, T) + const

    def _message(self, Q: np.ndarray, v: np.ndarray, h: np.ndarray, const: float) -> tuple:
        # The diagonal of Q is masked, so one strict triangle of Q + Q' has all of it.
        return super()._message(Q + Q.T, v - h, h, const)

    def _total(self, w: np.ndarray) -> list[Any]:
        S, s = super()._total(w)
        return [S, s, s]


class SparsePrimalBalance(PrimalBalance):
    """PrimalBalance on CSR rows where one side is narrow, as with a few suspects: only that side
    is made dense, so a tile costs its stored entries."""

    def _read(self, tile: sp.csr_array) -> tuple:
        return take_columns(tile, self.pairs.features), self.pairs.treatments.of_sparse(tile)

    @property
    def _few_features(self) -> bool:
        return self.pairs.features.size <= len(self.pairs.treatments)

    def _total(self, w: np.ndarray) -> list[Any]:
        S, s, x = add_up(self.rows.map(self._sums, w, dense=False))
        return [S.astype(self.rows.dtype, copy=False), s, x]

    def _sums(self, tile: Any, w: np.ndarray) -> tuple:
        F, T = self._read(tile)
        s, x = T.transposed_times(w[:, None])[:, 0], F.T @ w
        if self._few_features:
            return T.transposed_times(w[:, None] * F.toarray()).T, s, x
        return F.T @ (w[:, None] * T.dense()), s, x

    def _gradient(self, tile: Any, message: tuple) -> np.ndarray:
        Q, v, h, const = message
        F, T = self._read(tile)
        if self._few_features:
            dense = F.toarray()
            g = np.einsum("ik,ik->i", T.times(Q.T), dense) + T.times(v[:, None])[:, 0]
        else:
            g = np.einsum("ij,ij->i", F @ Q + v, T.dense())
        return g - F @ h + const

    def _row_gradient(self, message: tuple) -> np.ndarray:
        return self.rows.gather(self._gradient, message=message, dense=False)


class DualBalance:
    """The same numbers for n < d: n**2 t operations instead of n d t.

    With A = T/s - (1-T)/c (n x t) and M = X X' of the scaled features, D = X' diag(w) A and
    ||D||^2 = sum_ij w_i A_ij P_ij,  P = M diag(w) A,  less the masked entries, computed exactly: a
    two-valued column given itself differs by its gap whatever the weights, others are evaluated.
    Treatments are taken a column chunk at a time.
    """

    form = "dual"

    def __init__(self, rows: Any, pairs: Pairs) -> None:
        self.rows, self.pairs = rows, pairs
        step = max(1, 2**18 // max(rows.n, 1))
        starts = range(0, len(pairs.treatments), step)
        self.chunks = [np.arange(i, min(i + step, len(pairs.treatments))) for i in starts]
        M = np.zeros((rows.n, rows.n), dtype=rows.dtype)
        for i in range(0, pairs.features.size, step):
            F = self._features(np.arange(i, min(i + step, pairs.features.size)))
            M += F @ F.T
        self.M = M
        # The indicators are kept where they are no larger than the other matrices allowed here.
        self.kept = None
        if rows.n * len(pairs.treatments) <= LARGEST_MATRIX:
            self.kept = [self._indicators(number) for number in range(len(self.chunks))]
        k, j = pairs.masked
        own_gap = np.where(pairs.treatments.column[j] == pairs.features[k], pairs.gap[k], np.nan)
        fixed = np.isfinite(own_gap)
        # What masked two-valued columns add to ||D||^2, per treatment; zero where it is one-sided.
        self.fixed = np.zeros(len(pairs.treatments))
        np.add.at(self.fixed, j[fixed], (own_gap * pairs.scale[k])[fixed] ** 2)
        self.masked = [
            (k[inside], j[inside] - chunk[0])
            for chunk in self.chunks
            for inside in [~fixed & (j >= chunk[0]) & (j <= chunk[-1])]
        ]

    def _indicators(self, number: int) -> np.ndarray:
        treatments = self.pairs.treatments.take(self.chunks[number])
        return treatments.of_column_values(self.rows.columns(treatments.column))

    def _features(self, k: np.ndarray) -> np.ndarray:
        """Scaled feature columns, centred: D does not see the shift, rounding does."""
        F = self.rows.columns(self.pairs.features[k])
        F = (F - self.pairs.centre[k]) * self.pairs.scale[k]
        return F.astype(self.rows.dtype, copy=False)

    def _chunk(self, number: int, w: np.ndarray, gradient: bool) -> tuple:
        T = self.kept[number] if self.kept is not None else self._indicators(number)
        w_ = w.astype(T.dtype, copy=False)[:, None]
        inverse_s, inverse_c = group_rates(w @ T, float(w.sum()))
        A = T * (inverse_s + inverse_c).astype(T.dtype)
        A -= inverse_c.astype(T.dtype)
        wA = w_ * A
        P = self.M @ wA
        value = float(np.vdot(wA, P))
        value -= float(self.fixed[self.chunks[number]] @ (inverse_s > 0))
        k, j = self.masked[number]
        masked = np.zeros(0)
        if k.size:
            F = self._features(k)
            masked = np.einsum("ip,ip->p", wA[:, j], F, dtype=np.float64)
            value -= float(masked @ masked)
        if not gradient:
            return (value,)
        g = 2.0 * np.einsum("ij,ij->i", A, P).astype(np.float64)
        # Through s and c: dA_ij/ds_j = -T_ij / s_j^2, dA_ij/dc_j = (1 - T_ij) / c_j^2.
        treated = np.einsum("ij,ij->j", T, w_ * P).astype(np.float64)
        control = (w_[:, 0] @ P) - treated
        alpha = -2.0 * treated * inverse_s**2
        beta = 2.0 * control * inverse_c**2
        if k.size:
            wF = w_ * F
            treated = np.einsum("ip,ip->p", T[:, j], wF, dtype=np.float64)
            control = wF.sum(0, dtype=np.float64) - treated
            g -= 2.0 * ((A[:, j] * F) @ masked)
            np.add.at(alpha, j, 2.0 * masked * treated * inverse_s[j] ** 2)
            np.add.at(beta, j, -2.0 * masked * control * inverse_c[j] ** 2)
        return value, g + T @ (alpha - beta).astype(T.dtype) + beta.sum()

    def value(self, w: np.ndarray) -> float:
        run = self.rows.run(lambda i: self._chunk(i, w, False), range(len(self.chunks)))
        return max(0.0, float(add_up(run)[0]))

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        run = self.rows.run(lambda i: self._chunk(i, w, True), range(len(self.chunks)))
        value, gradient = add_up(run)
        return max(0.0, float(value)), gradient


class ProbeBalance:
    """An unbiased estimate of balance(w) for very wide data, in O(n d m): no d x t matrix.

    For random signs z, E ||D z||^2 = ||D||^2. With m columns Z (t x m) drawn once per object
        R = D Z = X' diag(w) (A Z) less the masked entries times Z,   estimate = ||R||^2 / m
    Masking R itself, not the square, keeps the estimate non-negative and takes the noise of the
    masked entries out. The variance of one probe is at most 2 ||D'D||_F^2 <= 2 ||D||^4, so the
    relative standard error is at most sqrt(2 / m): m = 2 / PROBE_ERROR^2 = 200 for 0.1. It is
    reached when D has rank one and is far smaller for the many-directional D of wide data.
    """

    form = "probes"

    def __init__(self, rows: Any, pairs: Pairs, seed: int, n_probes: int | None = None) -> None:
        self.rows, self.pairs = rows, pairs
        self.n_probes = n_probes or probe_count(PROBE_ERROR)
        draw = np.random.default_rng(seed).integers(
            0, 2, size=(len(pairs.treatments), self.n_probes), dtype=np.int8
        )
        self.Z = (2 * draw - 1).astype(rows.dtype)

    def _read(self, tile: Any) -> tuple:
        F = take_columns(tile, self.pairs.features)
        if sp.issparse(tile):
            return F, self.pairs.treatments.of_sparse(tile)
        return F, DenseIndicators(self.pairs.treatments.of(tile))

    def _group_sums(self, tile: Any, w: np.ndarray) -> tuple:
        F, T = self._read(tile)
        together = T.products(F, *self.pairs.masked).T @ w
        return T.transposed_times(w[:, None])[:, 0], F.T @ w, together

    def _projection(self, tile: Any, w: np.ndarray, message: tuple) -> tuple:
        """X' diag(w) A Z, with A Z = T (u Z) - offset."""
        F, T = self._read(tile)
        uZ, offset = message
        return (F.T @ (w[:, None] * (T.times(uZ) - offset)),)

    def _back_projection(self, tile: Any, w: np.ndarray, R: np.ndarray) -> tuple:
        """sum_p Z_jp (T' diag(w) X R)_jp and the plain column sums of diag(w) X R."""
        F, T = self._read(tile)
        wXR = w[:, None] * (F @ R)
        return np.einsum("jp,jp->j", T.transposed_times(wXR), self.Z), wXR.sum(0)

    def _gradient(self, tile: Any, message: tuple) -> np.ndarray:
        uZ, offset, R, by_treatment, const, by_product, by_feature = message
        F, T = self._read(tile)
        g = np.einsum("ip,ip->i", F @ R, T.times(uZ) - offset)
        g = g + T.times(by_treatment[:, None])[:, 0] + const
        return g + T.products(F, *self.pairs.masked) @ by_product + F @ by_feature

    def _estimate(self, w: np.ndarray) -> tuple:
        dtype = self.rows.dtype
        w_ = w.astype(dtype, copy=False)
        s, x, together = add_up(self.rows.map(self._group_sums, w, dense=False))
        inverse_s, inverse_c = group_rates(s, float(w.sum()))
        uZ = ((inverse_s + inverse_c)[:, None] * self.Z).astype(dtype)
        offset = (inverse_c @ self.Z).astype(dtype)
        parts = self.rows.map(self._projection, w_, message=(uZ, offset), dense=False)
        R = add_up(parts)[0] * self.pairs.scale[:, None]
        k, j = self.pairs.masked
        treated = together * inverse_s[j]
        control = (x[k] - together) * inverse_c[j]
        np.add.at(R, k, -((treated - control) * self.pairs.scale[k])[:, None] * self.Z[j])
        value = float(np.vdot(R, R)) / self.n_probes
        return value, R, inverse_s, inverse_c, uZ, offset, treated, control

    def value(self, w: np.ndarray) -> float:
        return self._estimate(w)[0]

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        value, R, inverse_s, inverse_c, uZ, offset, treated, control = self._estimate(w)
        dtype = self.rows.dtype
        G = (2.0 / self.n_probes) * R * self.pairs.scale[:, None]
        k, j = self.pairs.masked
        # The derivative of the masked entries that were taken out of R.
        pull = -np.einsum("pm,pm->p", G[k], self.Z[j])
        G_ = G.astype(dtype)
        parts = self.rows.map(
            self._back_projection, w.astype(dtype, copy=False), message=G_, dense=False
        )
        through_s, all_rows = add_up(parts)
        through_c = self.Z @ all_rows - through_s
        alpha = -through_s * inverse_s**2
        beta = through_c * inverse_c**2
        inverse = inverse_s[j] + inverse_c[j]
        np.add.at(alpha, j, -pull * treated * inverse_s[j])
        np.add.at(beta, j, pull * control * inverse_c[j])
        by_feature = np.zeros(self.pairs.features.size)
        np.add.at(by_feature, k, -pull * inverse_c[j])
        message = (
            uZ,
            offset,
            G_,
            (alpha - beta).astype(dtype),
            float(beta.sum()),
            (pull * inverse).astype(dtype),
            by_feature.astype(dtype),
        )
        return value, self.rows.gather(self._gradient, message=message, dense=False)


def probe_count(relative_error: float) -> int:
    """Probes for which sqrt(2 / m), the bound on the relative standard error, is reached."""
    return int(np.ceil(2.0 / relative_error**2))


class Balance:
    """The balance loss of several rectangles of D: their forms are chosen one by one.

    form = "auto" takes the cheaper exact form (dual when n < d and n x n fits, primal otherwise),
    and random probes only where neither fits in memory; or name one of "primal", "dual", "probes".
    """

    def __init__(self, rows: Any, rectangles: list[Pairs], *, form: str = "auto", seed: int = 0):
        self.rows, self.rectangles, self.seed = rows, rectangles, seed
        self.terms: list[Term] = [
            make_balance(rows, pairs, form, seed + i) for i, pairs in enumerate(rectangles)
        ]
        self.form = "+".join(dict.fromkeys(term.form for term in self.terms))

    @property
    def n_pairs(self) -> int:
        return sum(pairs.n_pairs for pairs in self.rectangles)

    def value(self, w: np.ndarray) -> float:
        return sum(term.value(w) for term in self.terms)

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        parts = [term.value_and_gradient(w) for term in self.terms]
        gradient = parts[0][1]
        for _, g in parts[1:]:
            gradient = gradient + g
        return sum(value for value, _ in parts), gradient

    def report(self, w: np.ndarray) -> float:
        """The value to publish: exact forms as they are, probes drawn afresh (the weights were
        fitted to the first ones)."""
        if "probes" not in self.form:
            return self.value(w)
        fresh = [
            ProbeBalance(self.rows, pairs, self.seed + 10**6 + i) if term.form == "probes" else term
            for i, (pairs, term) in enumerate(zip(self.rectangles, self.terms))
        ]
        return sum(term.value(w) for term in fresh)


def make_balance(rows: Any, pairs: Pairs, form: str, seed: int) -> Term:
    n, d, t = rows.n, pairs.features.size, len(pairs.treatments)
    if form == "auto":
        fits = d * t <= LARGEST_MATRIX
        # X X' costs n n d once, which some twenty evaluations have to earn.
        squares = n * (t + d / 20) < d * t and n * n <= LARGEST_MATRIX
        if squares and (fits or n <= 4 * probe_count(PROBE_ERROR)):
            form = "dual"
        else:
            form = "primal" if fits else "probes"
    if form == "dual":
        return DualBalance(rows, pairs)
    if form == "probes":
        return ProbeBalance(rows, pairs, seed)
    if pairs.symmetric:
        return SymmetricPrimalBalance(rows, pairs)
    if rows.sparse and min(d, t) <= NARROW:
        return SparsePrimalBalance(rows, pairs)
    return PrimalBalance(rows, pairs)


# --------------------------------------------------------------------------------------------
# The other terms: closed forms of w and of the squared distances e


def inertia(w: np.ndarray, e: np.ndarray) -> float:
    """sum_i w_i ||x_i - C[labels_i]||^2; its derivative in w_i is e_i.

    Only e enters, so an additive effect of the suspects changes how e is computed and nothing here.
    """
    return float(w @ e)


def spread(w: np.ndarray, inverse_a: np.ndarray) -> float:
    """sum_i a_i m_i^2 = sum_i w_i^2 / a_i: ||w||^2 where a = 1. Derivative 2 w_i / a_i.

    Written with a, a row of weight 2 is the row twice.
    """
    return float((w * w) @ inverse_a)


def mass(w: np.ndarray) -> float:
    """(sum(w) - 1)^2, the paper's guard against vanishing weights; derivative 2 (sum(w) - 1)."""
    return float(w.sum() - 1.0) ** 2


def effective_share(w: np.ndarray, inverse_a: np.ndarray, N: float) -> float:
    """sum(a m)^2 / (N sum(a m^2)): 1 for equal multipliers, 1/n when one row has it all."""
    squares = spread(w, inverse_a)
    return float(w.sum()) ** 2 / (N * squares) if squares > 0 else 0.0
