"""SuspectCorrector and SelectionMixture for AnnData, under the names of scanpy's functions.

    unskew.anndata.correct(adata, "batch")     obsm["X_unskew"]: X_pca without effects of the batch
    sc.pp.neighbors(adata, use_rep="X_unskew")
    sc.tl.leiden(adata)

    unskew.anndata.cluster(adata, "batch")     obs["unskew"]: groups whose shares differ by batch

anndata is not imported: any object with ``obs``, ``obsm``, ``uns`` and ``X`` will do. pandas, which
AnnData needs as well, is. ``X`` is not changed, so that a sparse or backed one stays as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from .corrector import SuspectCorrector
from .mixture import SelectionMixture

__all__ = ["cluster", "correct"]

# Most entries of ``X`` that are made dense.
MAX_DENSE = 2**27
# Floats of ``obs`` with more distinct values than this are numbers, other columns are categories.
MAX_CATEGORIES = 20


def correct(
    adata: Any,
    key: str | list[str] = "batch",
    *,
    use_rep: str = "X_pca",
    key_added: str = "X_unskew",
    protect: str | list[str] | None = None,
    weight_key: str | None = None,
    copy: bool = False,
    **parameters: Any,
) -> Any:
    """Remove the effects of batches from a representation of the rows, with `SuspectCorrector`.

    Parameters
    ----------
    adata : AnnData
    key : str or list of str, default="batch"
        Columns of ``obs``: the suspects, nuisance (batch) columns through which the bias came in.
        Text, booleans, integers and floats with at most 20 values are categories, other floats
        numbers.
    use_rep : str, default="X_pca"
        Key of ``obsm``, or "X". A representation of some tens of columns is meant.
    key_added : str, default="X_unskew"
        Key of the result in ``obsm`` and ``uns``.
    protect : str, list of str or None
        Columns of ``obs`` whose association with the representation is kept: diagnosis, age.
    weight_key : str or None
        Column of ``obs`` with design weights.
    copy : bool, default=False
        Whether to return a changed copy instead of changing ``adata``.
    **parameters
        Of `SuspectCorrector`: n_components, effects, reference (a boolean array), random_state, ...

    Returns
    -------
    None, or the copy. Sets

    ``obsm[key_added]`` : ndarray (n_obs, n_columns)
        The corrected rows.
    ``obs[key_added + "_weight"]`` : float
        Inverse-selection weights (times the design weights), for weighted methods and metrics.
    ``uns[key_added]`` : dict
        "params"; "levels", "effects" and "effects_se" (n_levels, n_columns); "shares"
        (n_levels, n_components): shares of the groups of the mixture in each batch; "identified";
        "n_components"; "choice": the covariance, the form of the effects and of the selection.

    Examples
    --------
    >>> import unskew.anndata
    >>> unskew.anndata.correct(adata, "batch")  # doctest: +SKIP
    >>> sc.pp.neighbors(adata, use_rep="X_unskew")  # doctest: +SKIP
    """
    adata = adata.copy() if copy else adata
    suspects, protected = _listed(key), _listed(protect)
    X, names, kinds = _table(adata, use_rep, [*suspects, *protected])
    corrector = SuspectCorrector(
        suspects, protect=protected or None, kinds=kinds, drop_suspects=True, **parameters
    )
    corrector.fit(X, sample_weight=_weights(adata, weight_key))
    adata.obsm[key_added] = corrector.transform(X)[names].to_numpy(dtype=np.float64)
    adata.obs[f"{key_added}_weight"] = corrector.sample_weight_
    own = [i for i, one in enumerate(corrector.suspect_effects_) if one["suspect"] in suspects]
    effects = [corrector.suspect_effects_[i] for i in own]
    adata.uns[key_added] = {
        "params": _plain(
            {"key": key, "use_rep": use_rep, "protect": protect, "weight_key": weight_key}
            | {"method": "SuspectCorrector"}
            | parameters
        ),
        **_effects(effects, names),
        "shares": np.asarray(corrector.mixture_.shares_)[own],
        "identified": corrector.identified_,
        "n_components": corrector.n_components_,
        "choice": dict(corrector.mixture_.choice_),
    }
    return adata if copy else None


def cluster(
    adata: Any,
    key: str | list[str] = "batch",
    *,
    n_components: int | str = "auto",
    use_rep: str = "X_pca",
    key_added: str = "unskew",
    weight_key: str | None = None,
    copy: bool = False,
    **parameters: Any,
) -> Any:
    """Find groups whose shares differ by batch, with `SelectionMixture`.

    Parameters
    ----------
    adata, key, use_rep, weight_key, copy
        As in `correct`.
    n_components : int or "auto", default="auto"
        Number of groups. "auto": that with the lowest BIC.
    key_added : str, default="unskew"
        Column of ``obs`` and key of ``uns`` of the result.
    **parameters
        Of `SelectionMixture`: effects, selection, covariance, random_state, ...

    Returns
    -------
    None, or the copy. Sets

    ``obs[key_added]`` : categorical of "0", "1", ...
        Groups, numbered by size, largest first.
    ``obs[key_added + "_weight"]`` : float
        Inverse-selection weights (times the design weights).
    ``obsm[key_added + "_proba"]`` : ndarray (n_obs, n_groups)
        Probabilities of the groups.
    ``uns[key_added]`` : dict
        "params"; "levels", "shares" (n_levels, n_groups), "effects", "effects_se"; "identified";
        "bic"; "choice".

    Examples
    --------
    >>> import unskew.anndata
    >>> unskew.anndata.cluster(adata, "batch", n_components=8)  # doctest: +SKIP
    >>> adata.obs["unskew"].value_counts()  # doctest: +SKIP
    """
    adata = adata.copy() if copy else adata
    X, names, kinds = _table(adata, use_rep, _listed(key))
    model = SelectionMixture(n_components, suspects=_listed(key), kinds=kinds, **parameters)
    model.fit(X, sample_weight=_weights(adata, weight_key))
    adata.obs[key_added] = _categorical(model.labels_.astype(str), adata.obs)
    adata.obs[f"{key_added}_weight"] = model.combined_weights_
    adata.obsm[f"{key_added}_proba"] = model.predict_proba(X)
    adata.uns[key_added] = {
        "params": _plain(
            {"key": key, "n_components": n_components, "use_rep": use_rep, "weight_key": weight_key}
            | {"method": "SelectionMixture"}
            | parameters
        ),
        **_effects(model.suspect_effects_, names),
        "shares": np.asarray(model.shares_),
        "identified": model.identified_,
        "bic": float(model.bic_),
        "choice": dict(model.choice_),
    }
    return adata if copy else None


# ------------------------------------------------------------------------------------- reading
def _listed(key: Any) -> list[str]:
    return [] if key is None else [key] if isinstance(key, str) else list(key)


def _table(adata: Any, use_rep: str, keys: list[str]) -> tuple[Any, list[str], dict]:
    """Representation and columns of ``obs`` as one table, so that warnings have their names; the
    names of the columns of the former; the kinds of all columns."""
    import pandas as pd

    R = _representation(adata, use_rep)
    names = [f"{use_rep}[{i}]" for i in range(R.shape[1])]
    columns, kinds = {}, dict.fromkeys(names, "number")
    for key in keys:
        if key not in adata.obs:
            raise KeyError(f"key={key!r} should be a column of adata.obs: {list(adata.obs)}")
        values, words = _codes(np.asarray(adata.obs[key]))
        if len(values) != len(R):
            raise ValueError(f"obs[{key!r}] has {len(values)} entries but {use_rep} has {len(R)}")
        columns[key] = pd.Categorical.from_codes(values, words) if words else values
        kinds[key] = "category" if words else "number"
    return pd.DataFrame(R, columns=names).assign(**columns), names, kinds


def _representation(adata: Any, use_rep: str) -> np.ndarray:
    if use_rep == "X":
        X = adata.X
        if np.prod(X.shape) > MAX_DENSE:
            raise ValueError(
                f"X has {X.shape[0]:,} x {X.shape[1]:,} entries; use_rep='X' accepts at most "
                f"{MAX_DENSE:,}, because corrected rows are dense. Use a representation, as X_pca"
            )
        X = X if isinstance(X, np.ndarray) or sp.issparse(X) else X[:]  # of a backed file
        return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    if use_rep not in adata.obsm:
        raise KeyError(
            f"use_rep={use_rep!r} should be 'X' or a key of adata.obsm: {list(adata.obsm)}"
        )
    R = np.asarray(adata.obsm[use_rep], dtype=np.float64)
    if R.ndim != 2:
        raise ValueError(f"obsm[{use_rep!r}] has {R.ndim} dimensions but should have 2")
    return R


def _codes(values: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Numbers and [], or positions of the values of a category (-1: missing) and their names."""
    if values.dtype.kind == "f":
        distinct = np.unique(values[~np.isnan(values)])
        if distinct.size > MAX_CATEGORIES:
            return values.astype(np.float64), []
    missing = np.array([value is None or value != value for value in values.tolist()], dtype=bool)
    words = values.astype(str)
    names = np.unique(words[~missing])
    codes = np.where(missing, -1, np.searchsorted(names, words))
    return codes, names.tolist()


def _weights(adata: Any, weight_key: str | None) -> np.ndarray | None:
    if weight_key is None:
        return None
    if weight_key not in adata.obs:
        raise KeyError(
            f"weight_key={weight_key!r} should be a column of adata.obs: {list(adata.obs)}"
        )
    return np.asarray(adata.obs[weight_key], dtype=np.float64)


# ------------------------------------------------------------------------------------- writing
def _effects(found: list[dict], names: list[str]) -> dict[str, Any]:
    """Levels as "batch=A", and their effects on the columns of the representation as arrays.

    Columns that do not vary have effects of 0."""
    place = {name: i for i, name in enumerate(names)}
    effects, errors = np.zeros((2, len(found), len(names)))
    for i, one in enumerate(found):
        at = [place[name] for name in one["columns"]]
        effects[i, at], errors[i, at] = one["effects"], one["se"]
    levels = [f"{one['suspect']}={one['level']}" for one in found]
    return {"levels": np.array(levels, dtype=object), "effects": effects, "effects_se": errors}


def _categorical(labels: np.ndarray, obs: Any) -> Any:
    """The labels as pandas' categorical if ``obs`` is a table of pandas, as scanpy's are."""
    if type(obs).__module__.split(".")[0] != "pandas":
        return labels
    import pandas as pd

    return pd.Categorical(labels, categories=sorted(np.unique(labels), key=int))


def _plain(parameters: dict) -> dict:
    """Parameters that a file can hold: None and arrays are left out."""
    return {
        name: value
        for name, value in parameters.items()
        if value is not None and isinstance(value, (str, int, float, list, bool))
    }
