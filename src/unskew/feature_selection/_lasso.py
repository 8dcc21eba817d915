"""The lasso of each row of a matrix on all other rows, for FSASL.

Both solvers return a sparse (n, n) matrix whose column i is

    argmin_s 1/2 ||z_i - sum_{j != i} s_j z_j||^2 + l_i ||s||_1,
    l_i = ratio max_{j != i} |z_j'z_i|,

and zero where l_i = 0 (z_i is zero or, to rounding, orthogonal to every other row).
"""

import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import lasso_path
from sklearn.utils import gen_batches

_GAP = 1e-9  # tolerance of the duality gap, relative to ||z_i||^2
_NARROW = 64  # up to this many columns c x c Newton systems are faster than coordinate descent


def converged_lasso(Z, ratio, copy=None):
    """Solve every lasso to a duality gap of 1e-9 ||z_i||^2.

    `copy[i]` is the index of the distinct row that row i equals. If rows are equal, the solution is
    not unique; copies of a row then share its weight equally, independently of the row order.
    """
    if copy is None:
        copy = np.unique(Z, axis=0, return_inverse=True)[1].reshape(-1)
    n, count = len(copy), np.bincount(copy)
    first = np.unique(copy, return_index=True)[1]
    solve = _working_set_lasso if Z.shape[1] <= _NARROW else _coordinate_lasso
    S = solve(Z[first], ratio, count > 1)
    expand = sp.csr_array((np.ones(n), (np.arange(n), copy)), shape=(n, len(count)))
    own = S.diagonal()
    others = expand @ sp.diags_array(1 / count) @ (S - sp.diags_array(own)) @ expand.T
    same = expand @ sp.diags_array(own / np.maximum(count - 1, 1)) @ expand.T
    S = sp.csc_array(others + same - sp.diags_array(same.diagonal()))
    S.eliminate_zeros()
    return S


def _coordinate_lasso(Z, ratio, own_allowed):
    """scikit-learn's coordinate descent on the Gram matrix, row by row."""
    n, c = Z.shape
    gram, design, columns = Z @ Z.T, np.asfortranarray(Z.T), []
    orthogonal = _orthogonal(Z, np.arange(n))
    for i in range(n):
        saved = gram[i].copy()
        right = saved.copy()
        if not own_allowed[i]:  # coordinate descent skips columns of norm 0
            right[i] = 0
            gram[i] = gram[:, i] = 0
        largest = np.abs(right).max()
        weight = ratio * largest
        s = np.zeros(n)
        if largest > orthogonal[i]:
            s = lasso_path(
                design,
                Z[i],
                alphas=[weight / c],  # scikit-learn divides the squares by the number of rows, c
                precompute=gram,
                Xy=right,
                tol=_GAP,
                max_iter=100_000,
                check_input=False,
            )[1][:, 0]
        gram[i] = gram[:, i] = saved
        columns.append(sp.csc_array(s[:, None]))
    return sp.hstack(columns, format="csc")


def _working_set_lasso(Z, ratio, own_allowed, max_rounds=50):
    """Newton steps on working sets of rows, for Z with few columns c.

    Rows of an embedding are nearly parallel within a cluster: coordinate descent and proximal
    gradients then need thousands of passes over all n rows, while a solution has about c non-zeros.
    Therefore each lasso is solved on a working set of m rows, which is replaced by the support of
    the solution and the rows that violate |z_j'u| <= l_i most, until the duality gap over all rows
    is small. The support is kept, so that the objective never increases.
    """
    n, c = Z.shape
    m = min(n, 4 * c + 16)
    found = []
    for rows in gen_batches(n, 128):
        i = np.arange(rows.start, rows.stop)
        correlation = _correlations(Z[i], Z, i, own_allowed)
        largest = correlation.max(axis=1)
        subset = largest > _orthogonal(Z, i)
        i, correlation, weight = i[subset], correlation[subset], ratio * largest[subset, None]
        for _ in range(max_rounds):
            if len(i) == 0:
                break
            work = np.argpartition(-correlation, m - 1, axis=1)[:, :m]
            A, b = Z[work], Z[i]
            A[(work == i[:, None]) & ~own_allowed[i, None]] = 0
            s, dual_point = nonnegative_lasso(np.concatenate([A, -A], axis=1), b, weight)
            s = s[:, :m] - s[:, m:]
            u = b - np.matmul(s[:, None, :], A)[:, 0]
            value = (u * u).sum(axis=1) / 2 + weight[:, 0] * np.abs(s).sum(axis=1)
            correlation = _correlations(dual_point, Z, i, own_allowed)
            dual_point *= np.minimum(1, weight / correlation.max(axis=1, keepdims=True))
            dual = (b * b).sum(axis=1) / 2 - ((b - dual_point) ** 2).sum(axis=1) / 2
            done = value - dual <= _GAP * (b * b).sum(axis=1)
            found.append((s[done], work[done], i[done]))
            np.put_along_axis(
                correlation,
                work,
                np.where(s != 0, np.inf, np.take_along_axis(correlation, work, axis=1)),
                axis=1,
            )
            last = (s[~done], work[~done], i[~done])
            i, correlation, weight = i[~done], correlation[~done], weight[~done]
        if len(i):
            found.append(last)
            warnings.warn(
                f"{len(i)} lasso problems of FSASL did not reach a duality gap of {_GAP:g}",
                ConvergenceWarning,
                stacklevel=2,
            )
    if not found:
        return sp.csc_array((n, n))
    values, atoms, column = (np.concatenate(part) for part in zip(*found))
    column = np.broadcast_to(column[:, None], atoms.shape)
    S = sp.csc_array((values.ravel(), (atoms.ravel(), column.ravel())), shape=(n, n))
    S.eliminate_zeros()
    return S


def _orthogonal(Z, i):
    """Bound below which |z_j'z_i| is rounding error, so that a lasso is not meaningful."""
    size = np.linalg.norm(Z, axis=1)
    return 4 * Z.shape[1] * np.finfo(Z.dtype).eps * size[i] * size.max(initial=0.0)


def _correlations(U, Z, i, own_allowed):
    """|z_j'u| for each row u of U and all rows of Z; 0 for row i[a] itself unless allowed."""
    correlation = np.abs(U @ Z.T)
    own = np.flatnonzero(~own_allowed[i])
    correlation[own, i[own]] = 0
    return correlation


def nonnegative_lasso(A, b, weight, tol=1e-10, max_iter=60):
    """argmin_{s >= 0} 1/2 ||b - A's||^2 + weight sum(s), for a batch: A (B, m, c), b (B, c).

    Predictor-corrector interior point on the dual, min_u 1/2 ||u - b||^2 with t = weight - Au >= 0;
    s are its multipliers; returns s and u. Each step solves
    (I + A' diag(s/t) A) du = b - u - A'(target / t), where `target` is the target value of s t.
    """
    m, c = A.shape[1:]
    At = A.transpose(0, 2, 1)
    size = (b * b).sum(axis=1, keepdims=True)
    # Keeps the identity representable in floating point when added to A' diag(s/t) A.
    largest = 1e13 / (A * A).sum(axis=2).max(axis=1)[:, None]
    s, t, u = np.repeat(size / (2 * weight * m), m, 1), np.repeat(weight, m, 1), np.zeros_like(b)
    for _ in range(max_iter):
        gap = (s * t).sum(axis=1, keepdims=True)
        miss = b - u - np.matmul(At, s[:, :, None])[:, :, 0]
        done = np.maximum(gap, (miss * miss).sum(axis=1, keepdims=True)) <= tol * size
        if done.all():
            break
        ratio = np.minimum(s / t, largest)
        M = np.matmul(At, A * ratio[:, :, None]) + np.eye(c)
        _, ds, dt = _direction(A, M, b - u, s, t, ratio, 0.0)
        step = _step_to_boundary(s, t, ds, dt, 1.0)
        left = ((s + step * ds) * (t + step * dt)).sum(axis=1, keepdims=True) / gap
        target = np.clip(left, 0, 1) ** 3 * gap / m - ds * dt
        du, ds, dt = _direction(A, M, b - u, s, t, ratio, target)
        step = np.where(done, 0.0, _step_to_boundary(s, t, ds, dt, 0.99))
        u, s, t = u + step * du, s + step * ds, t + step * dt
    # One of each pair s, t tends to zero. s is set to zero if it is much smaller than t, with s in
    # units of its bound size / (2 weight) and t in units of weight.
    return np.where(s * weight * 2 * weight > 1e-3 * t * size, s, 0.0), u


def _direction(A, M, rest, s, t, ratio, target):
    aim = target / t
    right = (
        rest - np.matmul(A.transpose(0, 2, 1), np.broadcast_to(aim, s.shape)[:, :, None])[:, :, 0]
    )
    du = np.linalg.solve(M, right[:, :, None])
    dt = -np.matmul(A, du)[:, :, 0]
    return du[:, :, 0], aim - s - ratio * dt, dt


def _step_to_boundary(s, t, ds, dt, part):
    """Per problem, the share `part` of the step to the first zero of s or t, at most 1."""
    worst = np.maximum((-ds / s).max(axis=1), (-dt / t).max(axis=1))[:, None]
    return part / np.maximum(worst, part)


def author_lasso(Z, ratio):
    """The lassos as in the authors' code, which stops at an absolute change of 1e-3.

    Accelerated proximal gradient with backtracking, initialized with a multiple of Z z_i. Rows of
    the embedding have norms far below 1, so that it stops after a few steps and S is almost dense.
    """
    n = len(Z)
    S = np.zeros((n, n))
    for i in range(n):
        y, A = Z[i], np.delete(Z, i, axis=0).T
        Ay = A.T @ y
        weight = ratio * np.abs(Ay).max()
        x, Ax = Ay, A @ Ay
        length = np.abs(x).sum()
        if length >= 1e-6:
            start = (Ax @ y - weight * length) / (Ax @ Ax)
            x, Ax = start * x, start * Ax
        x_before, Ax_before, value = x, Ax, np.inf
        lipschitz, momentum_before, momentum = 1.0, 0.0, 1.0
        for step in range(10_000):
            beta = (momentum_before - 1) / momentum
            s, As = x + beta * (x - x_before), Ax + beta * (Ax - Ax_before)
            gradient = A.T @ As - Ay
            x_before, Ax_before = x, Ax
            while True:
                v = s - gradient / lipschitz
                x = np.sign(v) * np.maximum(np.abs(v) - weight / lipschitz, 0)
                Ax = A @ x
                moved, image = (x - s) @ (x - s), (Ax - As) @ (Ax - As)
                if moved <= 1e-20 or image <= moved * lipschitz:
                    break
                lipschitz = max(2 * lipschitz, image / moved)
            momentum_before, momentum = momentum, (1 + np.sqrt(4 * momentum**2 + 1)) / 2
            value_before, value = value, (Ax - y) @ (Ax - y) / 2 + weight * np.abs(x).sum()
            if moved <= 1e-20 or (step > 0 and abs(value - value_before) <= 1e-3):
                break
        S[np.arange(n) != i, i] = x
    return sp.csc_array(S)
