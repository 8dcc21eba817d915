"""SuspectCorrector and SelectionMixture for AnnData, under the names of scanpy's functions.

    unskew.anndata.correct(adata, "batch")     obsm["X_unskew"]: X_pca without effects of the batch
    sc.pp.neighbors(adata, use_rep="X_unskew")
    sc.tl.leiden(adata)

    unskew.anndata.cluster(adata, "batch")     obs["unskew"]: groups whose shares differ by batch

anndata is not imported: any object with ``obs``, ``obsm``, ``uns`` and ``X`` will do. ``X`` is not
changed, so that a sparse or backed one stays as it is.
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
        "params"; "levels", "effects" and "effects_se" (n_levels, n_columns); "identified";
        "n_components".

    Examples
    --------
    >>> import unskew.anndata
    >>> unskew.anndata.correct(adata, "batch")  # doctest: +SKIP
    >>> sc.pp.neighbors(adata, use_rep="X_unskew")  # doctest: +SKIP
    """
    adata = adata.copy() if copy else adata
    X, d, columns, kinds = _table(adata, use_rep, [*_listed(key), *_listed(protect)])
    suspects = list(range(d, d + len(_listed(key))))
    protected = list(range(d + len(suspects), X.shape[1])) or None
    corrector = SuspectCorrector(
        suspects, protect=protected, kinds=kinds, drop_suspects=True, **parameters
    )
    corrector.fit(X, sample_weight=_weights(adata, weight_key))
    adata.obsm[key_added] = corrector.transform(X)[:, :d]
    adata.obs[f"{key_added}_weight"] = corrector.sample_weight_
    effects = [one for one in corrector.suspect_effects_ if _position(one) in suspects]
    adata.uns[key_added] = {
        "params": _plain(
            {"key": key, "use_rep": use_rep, "protect": protect, "weight_key": weight_key}
            | {"method": "SuspectCorrector"}
            | parameters
        ),
        **_effects(effects, columns, d),
        "identified": corrector.identified_,
        "n_components": corrector.n_components_,
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
        "bic".

    Examples
    --------
    >>> import unskew.anndata
    >>> unskew.anndata.cluster(adata, "batch", n_components=8)  # doctest: +SKIP
    >>> adata.obs["unskew"].value_counts()  # doctest: +SKIP
    """
    adata = adata.copy() if copy else adata
    X, d, columns, kinds = _table(adata, use_rep, _listed(key))
    model = SelectionMixture(
        n_components, suspects=list(range(d, X.shape[1])), kinds=kinds, **parameters
    )
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
        **_effects(model.suspect_effects_, columns, d),
        "shares": np.asarray(model.shares_),
        "identified": model.identified_,
        "bic": float(model.bic_),
    }
    return adata if copy else None


# ------------------------------------------------------------------------------------- reading
def _listed(key: Any) -> list[str]:
    return [] if key is None else [key] if isinstance(key, str) else list(key)


def _table(adata: Any, use_rep: str, keys: list[str]) -> tuple[np.ndarray, int, list, dict]:
    """Representation and columns of ``obs`` as one array; the number of columns of the former; the
    name and the values of each of the latter; the kinds of all columns."""
    R = _representation(adata, use_rep)
    parts, columns = [R], []
    kinds = dict.fromkeys(range(R.shape[1]), "number")
    for i, key in enumerate(keys, R.shape[1]):
        if key not in adata.obs:
            raise KeyError(f"key={key!r} should be a column of adata.obs: {list(adata.obs)}")
        codes, words = _codes(np.asarray(adata.obs[key]))
        if len(codes) != len(R):
            raise ValueError(f"obs[{key!r}] has {len(codes)} entries but {use_rep} has {len(R)}")
        parts.append(codes[:, None])
        columns.append((key, words))
        kinds[i] = "category" if words else "number"
    return np.hstack(parts), R.shape[1], columns, kinds


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


def _codes(values: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Numbers and (), or positions of the values of a category (nan: missing) and their names."""
    if values.dtype.kind == "f":
        distinct = np.unique(values[~np.isnan(values)])
        if distinct.size > MAX_CATEGORIES:
            return values.astype(np.float64), ()
    missing = np.array([value is None or value != value for value in values.tolist()], dtype=bool)
    words = values.astype(str)
    names = np.unique(words[~missing])
    codes = np.searchsorted(names, np.where(missing, names[:1], words)).astype(np.float64)
    codes[missing] = np.nan
    return codes, tuple(names.tolist())


def _weights(adata: Any, weight_key: str | None) -> np.ndarray | None:
    if weight_key is None:
        return None
    if weight_key not in adata.obs:
        raise KeyError(
            f"weight_key={weight_key!r} should be a column of adata.obs: {list(adata.obs)}"
        )
    return np.asarray(adata.obs[weight_key], dtype=np.float64)


# ------------------------------------------------------------------------------------- writing
def _position(effect: dict) -> int:
    """Position of the suspect of an entry of ``suspect_effects_``: "column 12"."""
    return int(effect["suspect"].split()[-1])


def _effects(found: list[dict], columns: list, d: int) -> dict[str, Any]:
    """Levels as "batch=A", and their effects on the columns of the representation as arrays.

    Columns that do not vary have effects of 0."""
    levels, effects, errors = [], np.zeros((len(found), d)), np.zeros((len(found), d))
    for i, one in enumerate(found):
        key, words = columns[_position(one) - d]
        level = one["level"].split("=")[-1]
        known = words and level.isdigit()
        levels.append(f"{key}={words[int(level)] if known else level}")
        at = [int(str(name).split()[-1]) for name in one["columns"]]
        effects[i, at], errors[i, at] = one["effects"], one["se"]
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
