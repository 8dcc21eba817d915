"""Baselines that first remove correlations, by weights or by regressing suspects out."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._validation import check_option
from ..weights import DecorrelationWeights
from ._base import BaselineKMeans, _dense


class DecorrelatedKMeans(BaselineKMeans):
    """Decorrelation weights first, then weighted k-means (Dec+KM of the paper).

    The two-step counterpart of DCKM: DecorrelationWeights, which do not use clusters, then

        argmin over C, labels of sum_i w_i ||x_i - C[label_i]||^2

    Parameters
    ----------
    n_clusters : int, default=8
    weights : {"paper", "converged"}
        "paper": 20 of the authors' steps on the balance loss alone, without spread and mass terms.
        "converged": the normalized objective, run to convergence, with ``spread_strength``.
    spread_strength : float or None
        For "converged" only: None means 0.1, as in DCKM; 0 is the balance loss alone, whose minimum
        has a small effective sample size (4 % on make_site_footprint with its suspects at rate
        0.8). The 20 steps of "paper" stop long before that minimum.
    suspects : str, int, list of names or indices, boolean mask, or None
        Nuisance (batch) columns through which the bias came in: site, scanner, channel. Only pairs
        of a suspect and another column are balanced. None: all pairs.
    cluster_on : {"non_suspects", "all"}
        "non_suspects": suspects are not part of the distance; "all": they are.
    n_bins : int, default=5
        Number of quantile bins, as treatments, of a column with more than two values.
    init, n_init, max_iter, tol, random_state
        Parameters of k-means; see PlainKMeans.

    Attributes
    ----------
    weights_, effective_sample_size_, imbalance_, initial_imbalance_
        See DecorrelationWeights, whose fitted object is ``decorrelation_``.
    labels_, cluster_centers_, inertia_, n_iter_
        See PlainKMeans; w is sample_weight times ``weights_``.

    Examples
    --------
    >>> from unskew.baselines import DecorrelatedKMeans
    >>> from unskew.simulate import make_site_footprint
    >>> data = make_site_footprint(500, random_state=0)
    >>> model = DecorrelatedKMeans(4, suspects=data.suspects, n_init=1, random_state=0).fit(data.X)
    >>> model.imbalance_ < model.initial_imbalance_ / 2, model.effective_sample_size_ < 0.5
    (True, True)
    """

    def __init__(
        self,
        n_clusters=8,
        *,
        weights="paper",
        spread_strength=None,
        suspects=None,
        cluster_on="non_suspects",
        n_bins=5,
        init="partition",
        n_init=10,
        max_iter=300,
        tol=1e-4,
        random_state=None,
    ):
        super().__init__(n_clusters, init, n_init, max_iter, tol, random_state)
        self.weights = weights
        self.spread_strength = spread_strength
        self.suspects = suspects
        self.cluster_on = cluster_on
        self.n_bins = n_bins

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option("weights", self.weights, ("paper", "converged"))
        check_option("cluster_on", self.cluster_on, ("non_suspects", "all"))
        if self.weights == "paper" and self.spread_strength is not None:
            raise ValueError(
                f"spread_strength={self.spread_strength!r} should be None with weights='paper', "
                "which has no spread term; or use weights='converged'"
            )

    def _learn(self, X: Any, a: np.ndarray, seed: int) -> np.ndarray:
        suspects = None if self.suspects is None else self._find_suspects(X.shape[1])
        how = {"suspects": suspects, "n_bins": self.n_bins}
        if self.weights == "paper":
            if not np.isin(a, (0.0, 1.0)).all():
                raise ValueError(
                    f"sample_weight has {a[(a != 0) & (a != 1)][0]:g}, but weights='paper' is "
                    "defined for weights 0 and 1 only; use weights='converged'"
                )
            how |= {"objective": "paper", "solver": "paper", "max_iter": 20, "tol": 0.0}
            how |= {"spread_strength": 0.0, "mass_strength": 0.0}
        else:
            spread = 0.1 if self.spread_strength is None else self.spread_strength
            how |= {"spread_strength": spread, "max_iter": 1000}
        model = DecorrelationWeights(**how).fit(X, sample_weight=a)
        self.decorrelation_, self.weights_ = model, model.weights_
        self.imbalance_, self.initial_imbalance_ = model.imbalance_, model.initial_imbalance_
        self.effective_sample_size_ = model.effective_sample_size_
        self._columns = np.arange(X.shape[1])
        if suspects is not None and self.cluster_on == "non_suspects":
            self._columns = np.delete(self._columns, suspects)
        return a * model.weights_  # with "paper", a is 0 or 1, and weights_ is 0 where a is 0


class RegressOutKMeans(BaselineKMeans):
    """k-means after regressing the suspects out of every other column.

    With z the suspects (nuisance (batch) columns through which the bias came in: site, scanner,
    channel) and x the other columns of a row, the (weighted) least-squares fit of x on z with an
    intercept is subtracted, and k-means runs on

        y = x - B'(z - mean of z)

    Columns of y are uncorrelated with all suspects. If the classes are associated with the suspects
    in the sample, this also removes part of the classes, in two places: in the clusters, and again
    in ``predict``, where B shifts new rows by an effect that is partly that of the classes. On rows
    of a population without that association, ``predict_on="raw"`` avoids the second
    (make_site_footprint(2000, rate=0.8): population ARI 0.9 compared with 0.6 to 0.7).

    Parameters
    ----------
    n_clusters : int, default=8
    suspects : str, int, list of names or indices, or boolean mask
        Columns to regress out (a category as one-hot columns); they are not part of the distance.
    predict_on : {"corrected", "raw"}
        Rows that ``predict``, ``transform`` and ``score`` compare with the centres: y, as in the
        fit and in common practice, or the uncorrected x. ``labels_`` are always those of y.
    init, n_init, max_iter, tol, random_state
        See PlainKMeans.

    Attributes
    ----------
    coef_ : ndarray (n_suspects, n_features)
        B; of minimum norm if suspects are collinear; 0 in the columns of the suspects.
    labels_, cluster_centers_, inertia_, n_iter_
        See PlainKMeans; of y. Sparse data are converted to dense, because y is dense.

    Examples
    --------
    >>> from sklearn.metrics import adjusted_rand_score
    >>> from unskew.baselines import RegressOutKMeans
    >>> from unskew.simulate import make_site_footprint
    >>> data = make_site_footprint(2000, rate=0.8, random_state=0)
    >>> for on in ("corrected", "raw"):
    ...     model = RegressOutKMeans(4, suspects=data.suspects, predict_on=on, random_state=0)
    ...     labels = model.fit(data.X).predict(data.X_population)
    ...     print(f"{on} {adjusted_rand_score(data.y_population, labels):.1f}")
    corrected 0.7
    raw 0.9
    """

    def __init__(
        self,
        n_clusters=8,
        *,
        suspects,
        predict_on="corrected",
        init="partition",
        n_init=10,
        max_iter=300,
        tol=1e-4,
        random_state=None,
    ):
        super().__init__(n_clusters, init, n_init, max_iter, tol, random_state)
        self.suspects = suspects
        self.predict_on = predict_on

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option("predict_on", self.predict_on, ("corrected", "raw"))
        if self.suspects is None:
            raise ValueError("suspects=None should name the columns to regress out")

    def _learn(self, X: Any, a: np.ndarray, seed: int) -> np.ndarray:
        self._suspects = self._find_suspects(X.shape[1])
        self._columns = np.delete(np.arange(X.shape[1]), self._suspects)
        z, x = _dense(X[:, self._suspects]), _dense(X[:, self._columns])
        share = a / a.sum()
        self._z_mean = share @ z
        z, x = z - self._z_mean, x - share @ x
        sd = np.sqrt(share @ z**2)
        # Each suspect is scaled, so that one of small variance is not treated as collinear.
        per_sd = np.divide(1.0, sd, out=np.zeros_like(sd), where=sd > 1e-12 * np.abs(self._z_mean))
        root = np.sqrt(share)[:, None]
        slopes = np.linalg.lstsq(root * (z * per_sd), root * x, rcond=1e-10)[0]
        self.coef_ = np.zeros((z.shape[1], X.shape[1]))
        self.coef_[:, self._columns] = per_sd[:, None] * slopes
        return a

    def _to_space(self, X: Any) -> np.ndarray:
        effect = (_dense(X[:, self._suspects]) - self._z_mean) @ self.coef_[:, self._columns]
        return (_dense(X[:, self._columns]) - effect).astype(X.dtype, copy=False)

    def _new_to_space(self, X: Any) -> Any:
        return self._to_space(X) if self.predict_on == "corrected" else X[:, self._columns]
