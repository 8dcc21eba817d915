"""Simulated data with known selection bias and known classes.

Each generator draws three data sets from one model: a biased sample for fitting, an unbiased sample
of the same size for comparison, and a population for evaluation. In the population the nuisance
variable (`site`, background) is independent of the class; in the biased sample it depends on the
class. The bias is known exactly: every biased row has its true inverse-selection weight.

Data sets with the same `random_state` share their random numbers, whatever the rate: a sweep over
`rate` changes only the nuisance variable, and a larger population does not change the samples.
"""

from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.utils import Bunch

from ._validation import is_integer

__all__ = [
    "make_site_footprint",
    "make_spurious_background",
    "make_tinted_digits",
    "select_with_bias",
]


def make_site_footprint(
    n_samples=2000,
    *,
    n_clusters=4,
    n_core=40,
    n_footprint=36,
    rate=0.8,
    on=0.7,
    off=0.2,
    interaction=0.0,
    n_sites=None,
    n_population=None,
    random_state=None,
):
    """Classes observed at sites, where the site affects many other columns.

    The data are binary. The site, a nuisance variable, is recorded in the last, one-hot columns
    and affects `n_footprint` other columns. k-means on the biased sample finds a mixture of class
    and site and fails on the population.

    The model, for a row of class c (all classes equally likely):

        core column of class b        1 with probability `on` if b = c, else with `off`
        site, biased sample           s = c mod n_sites with probability `rate`, else any site,
                                      all equally likely (including s = c mod n_sites)
        site, unbiased, population    any site, all equally likely
        footprint column of site b    1 with probability `on` if b = s, else with `off`; for the
                                      last share `interaction` of each site's columns the
                                      condition is b = (s + c) mod n_sites instead
        site column b                 1 if b = s, else 0

    Core columns are divided equally among the classes, footprint columns among the sites. The
    true weight of a biased row is P_population(s, c) / P_sample(s, c), that is 1/n_sites divided by
    rate * [s = c mod n_sites] + (1 - rate) / n_sites, scaled to mean 1.

    Parameters
    ----------
    n_samples : int, default=2000
        Rows of the biased sample and of the unbiased sample.
    n_clusters : int, default=4
        Number of classes.
    n_core, n_footprint : int, default=40, 36
        Number of columns that depend on the class, and that depend on the site. If the effect of
        the site dominates, k-means finds sites even in unbiased data.
    rate : float in [0, 1), default=0.8
        Strength of the dependence of the site on the class in the biased sample; 0 is no bias. At
        1 some pairs of site and class would never be observed, and no weights could correct that.
    on, off : float in [0, 1], default=0.7, 0.2
        Probability of a 1 where a column belongs to the row's class (site), and elsewhere.
    interaction : float in [0, 1], default=0.0
        Share of the footprint columns in which the effect of the site depends on the class, so
        that it is not additive and cannot be removed.
    n_sites : int, default=None
        Number of sites; None means `n_clusters`.
    n_population : int, default=None
        Rows of the population; None means `n_samples`.
    random_state : int, numpy Generator, RandomState or None
        Source of the random numbers.

    Returns
    -------
    Bunch with
        X, y, site : the biased sample, its classes, its sites (integer codes)
        weights : true inverse-selection weights of the biased sample, mean 1
        X_unbiased, y_unbiased, site_unbiased : the unbiased sample
        X_population, y_population, site_population : the population
        core, footprint, suspects : column indices; suspects are nuisance (batch) columns through
            which the bias came in, here the one-hot site columns
        feature_names : "core_<class>_<column>", "footprint_<site>_<column>", "site_<site>"
        params : the arguments, as a dict

    Examples
    --------
    >>> from unskew.simulate import make_site_footprint
    >>> data = make_site_footprint(2000, rate=0.8, random_state=0)
    >>> data.X.shape, data.feature_names[0], data.feature_names[-1]
    ((2000, 80), 'core_0_00', 'site_3')
    >>> round(float((data.site == data.y).mean()), 2)
    0.85
    >>> round(float((data.site_population == data.y_population).mean()), 2)
    0.25
    >>> import numpy as np
    >>> round(float(np.average(data.site == data.y, weights=data.weights)), 2)
    0.25
    """
    n_sites = n_clusters if n_sites is None else n_sites
    n_population = n_samples if n_population is None else n_population
    _check_counts(1, n_samples=n_samples, n_population=n_population, n_footprint=n_footprint)
    _check_counts(2, n_clusters=n_clusters, n_sites=n_sites)
    _check_core(n_core, n_clusters)
    _check_rates(rate=rate, on=on, off=off)
    params = {
        "n_samples": n_samples, "n_clusters": n_clusters, "n_core": n_core,
        "n_footprint": n_footprint, "rate": rate, "on": on, "off": off,
        "interaction": interaction, "n_sites": n_sites, "n_population": n_population,
        "random_state": random_state,
    }  # fmt: skip
    if not _is_in(interaction, 0, 1):
        raise ValueError(f"interaction={interaction!r} should be in [0, 1]")

    core_of = _share_out(n_core, n_clusters)
    footprint_of = _share_out(n_footprint, n_sites)
    # The last columns of each site.
    place = np.arange(n_footprint) - np.searchsorted(footprint_of, footprint_of)
    size = np.bincount(footprint_of, minlength=n_sites)[footprint_of]
    twisted = place >= np.round((1 - interaction) * size)

    def columns(rng, y, site):
        core = _switch_on(rng, y, core_of, on, off)
        owner = np.where(twisted, ((site + y) % n_sites)[:, None], site[:, None])
        footprint = _switch_on(rng, owner, footprint_of, on, off)
        return np.hstack([core, footprint, site[:, None] == np.arange(n_sites)])

    bunch = _draw_three(params, n_sites, columns, random_state)
    width = n_core + n_footprint
    bunch.update(
        core=np.arange(n_core),
        footprint=np.arange(n_core, width),
        suspects=np.arange(width, width + n_sites),
        feature_names=_names("core", core_of)
        + _names("footprint", footprint_of)
        + [f"site_{s}" for s in range(n_sites)],
    )
    return bunch


def make_spurious_background(
    n_samples=2000,
    *,
    n_clusters=4,
    n_core=40,
    n_background=20,
    rate=0.8,
    on=0.7,
    off=0.2,
    n_types=None,
    n_population=None,
    random_state=None,
):
    """Classes with associated backgrounds (dogs photographed on grass).

    The model of `make_site_footprint` with the background type instead of the site, except that
    the type itself is not a column: only `n_background` columns are observed, each 1 with
    probability `on` for rows of its type and `off` otherwise. All biased columns are suspects
    (nuisance (batch) columns through which the bias came in: site, scanner, channel), so dropping
    the suspects is a strong baseline here.

        type, biased sample           t = c mod n_types with probability `rate`, else any type
        type, unbiased, population    any type, all equally likely

    Parameters
    ----------
    n_samples : int, default=2000
        Rows of the biased sample and of the unbiased sample.
    n_clusters : int, default=4
        Number of classes.
    n_core, n_background : int, default=40, 20
        Number of columns that depend on the class, and that depend on the background type.
    rate : float in [0, 1), default=0.8
        Strength of the dependence of the background type on the class in the biased sample; 0 is
        no bias.
    on, off : float in [0, 1], default=0.7, 0.2
        Probability of a 1 where a column belongs to the row's class (type), and elsewhere.
    n_types : int, default=None
        Number of background types; None means `n_clusters`.
    n_population : int, default=None
        Rows of the population; None means `n_samples`.
    random_state : int, numpy Generator, RandomState or None
        Source of the random numbers.

    Returns
    -------
    Bunch with the keys of `make_site_footprint`. `site` is the background type, `footprint` is
    empty, `suspects` are all background columns, named "background_<type>_<column>".

    Examples
    --------
    >>> from unskew.simulate import make_spurious_background
    >>> data = make_spurious_background(500, random_state=0)
    >>> data.X.shape, data.feature_names[data.suspects[0]], len(data.footprint)
    ((500, 60), 'background_0_00', 0)
    """
    n_types = n_clusters if n_types is None else n_types
    n_population = n_samples if n_population is None else n_population
    _check_counts(1, n_samples=n_samples, n_population=n_population, n_background=n_background)
    _check_counts(2, n_clusters=n_clusters, n_types=n_types)
    _check_core(n_core, n_clusters)
    _check_rates(rate=rate, on=on, off=off)
    params = {
        "n_samples": n_samples, "n_clusters": n_clusters, "n_core": n_core,
        "n_background": n_background, "rate": rate, "on": on, "off": off, "n_types": n_types,
        "n_population": n_population, "random_state": random_state,
    }  # fmt: skip

    core_of = _share_out(n_core, n_clusters)
    background_of = _share_out(n_background, n_types)

    def columns(rng, y, kind):
        core = _switch_on(rng, y, core_of, on, off)
        return np.hstack([core, _switch_on(rng, kind, background_of, on, off)])

    bunch = _draw_three(params, n_types, columns, random_state)
    bunch.update(
        core=np.arange(n_core),
        footprint=np.arange(0),
        suspects=np.arange(n_core, n_core + n_background),
        feature_names=_names("core", core_of) + _names("background", background_of),
    )
    return bunch


def make_tinted_digits(
    *, n_classes=10, n_sites=2, tint=0.3, rate=0.6, random_state=None, classes=None
):
    """scikit-learn's digits, scanned at sites that add a tint to each pixel; the site depends on
    the digit.

    Real images with a known nuisance variable: site s adds a fixed number to each pixel, drawn once
    per site from a normal distribution with standard deviation `tint` times that of the pixel. In
    the biased sample an image of class c is scanned at site c mod n_sites with probability `rate`,
    else at any site, all equally likely; in the population at any site.

    Parameters
    ----------
    n_classes : int in 2..10, default=10
        The digits 0 to n_classes - 1.
    n_sites : int, default=2
    tint : float >= 0, default=0.3
        At 1 the sites contribute as much variance as all the digits together.
    rate : float in [0, 1), default=0.6
    random_state : int, numpy Generator, RandomState or None
    classes : list of digits or None
        Used instead of `n_classes` if given.

    Returns
    -------
    Bunch with
        X, y, site : the biased sample: 64 pixels in [0, 1] plus tint, then one-hot sites
        X_population, y_population, site_population : the same images, sites drawn independently
        X_clean : the same images without tint and without sites
        suspects : nuisance (batch) columns through which the bias came in, here the indices of the
            site columns
        weights : true inverse-selection weights, mean 1
        feature_names, params

    Examples
    --------
    >>> from unskew.simulate import make_tinted_digits
    >>> data = make_tinted_digits(n_classes=4, n_sites=4, tint=1.0, rate=0.9, random_state=0)
    >>> data.X.shape, data.suspects.tolist()
    ((720, 68), [64, 65, 66, 67])
    >>> round(float((data.site == data.y).mean()), 1)
    0.9
    """
    _check_counts(2, n_sites=n_sites)
    if classes is None:
        if not isinstance(n_classes, Integral) or not _is_in(n_classes, 2, 10):
            raise ValueError(f"n_classes={n_classes!r} should be an integer in 2..10")
        classes = range(n_classes)
    classes = np.unique(np.asarray(list(classes)))
    if classes.size < 2 or not np.isin(classes, np.arange(10)).all():
        raise ValueError(f"classes={classes.tolist()} should be two or more different digits")
    if not _is_in(tint, 0, np.finfo(float).max):
        raise ValueError(f"tint={tint!r} should be >= 0")
    _check_rates(rate=rate, on=1.0, off=0.0)
    images, digit = load_digits(return_X_y=True)
    chosen = np.isin(digit, classes)
    clean, y = images[chosen] / 16.0, np.searchsorted(classes, digit[chosen])
    rng = _generator(random_state)
    tints = tint * clean.std(axis=0) * rng.normal(size=(n_sites, 64))
    follows, anywhere, elsewhere = (
        rng.random(y.size) < rate,
        rng.integers(n_sites, size=y.size),
        rng.integers(n_sites, size=y.size),
    )
    site = np.where(follows, y % n_sites, anywhere)

    def scan(where):
        return np.hstack([clean + tints[where], where[:, None] == np.arange(n_sites)])

    weights = (1 / n_sites) / (rate * (site == y % n_sites) + (1 - rate) / n_sites)
    return Bunch(
        X=scan(site),
        y=y,
        site=site,
        weights=weights / weights.mean(),
        X_population=scan(elsewhere),
        y_population=y,
        site_population=elsewhere,
        X_clean=clean,
        suspects=np.arange(64, 64 + n_sites),
        feature_names=[f"pixel_{i}_{j}" for i in range(8) for j in range(8)]
        + [f"site_{s}" for s in range(n_sites)],
        params={
            "classes": classes.tolist(), "n_sites": n_sites, "tint": tint, "rate": rate,
            "random_state": random_state,
        },
    )  # fmt: skip


def select_with_bias(X, y, attribute, strength, *, n_samples=None, random_state=None):
    """Draw a biased sample from any labelled data set, with its true weights.

    In the sample the attribute is more strongly associated with the class than in the data. The V
    values of `attribute` and the C classes of `y`, each in sorted order, are numbered from 0;
    value v and class c match if v and c are equal modulo min(V, C), so that each class has a
    matching value. A row is selected, without replacement, with probability

        pi_i = min(1, scale * q_i)
        q_i  = 1                                            if its value and class match
        q_i  = (1 - strength) / (1 - strength + strength * min(V, C))   otherwise

    `scale` makes the probabilities sum to `n_samples`. If the attribute is uniform and independent
    of the class, and V <= C, the sample has the matching value with rate `strength` and any value
    otherwise: `strength` is then the `rate` of `make_site_footprint`. All probabilities are
    positive, so that the true weights 1 / pi_i exist. The size and the probabilities are exact
    (systematic sampling in random order).

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, d)
        The data.
    y : array of shape (n,)
        Classes.
    attribute : array of shape (n,)
        The categorical attribute to associate with the class (domain, site, ...).
    strength : float in [0, 1)
        Strength of the bias; 0 is a simple random sample.
    n_samples : int, default=None
        Size of the sample. None means the maximum with scale <= 1, the sum of the q_i rounded
        down. Above it, all matching rows are selected (min above) and the bias is weaker.
    random_state : int, numpy Generator, RandomState or None
        Source of the random numbers.

    Returns
    -------
    Bunch with
        indices : the selected rows of the input, ascending
        X, y, attribute : these rows
        weights : true inverse-selection weights of these rows, mean 1
        selection_probability : pi for every row of the input, shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from unskew.simulate import select_with_bias
    >>> rng = np.random.default_rng(0)
    >>> y, domain = rng.integers(4, size=(2, 4000))
    >>> sample = select_with_bias(np.eye(4)[y], y, domain, 0.8, random_state=0)
    >>> tied = sample.y == sample.attribute
    >>> round(float(tied.mean()), 2), round(float(np.average(tied, weights=sample.weights)), 2)
    (0.85, 0.25)
    """
    if not _is_in(strength, 0, 1) or strength == 1:
        raise ValueError(f"strength={strength!r} should be a number in [0, 1)")
    rows = X.shape[0] if hasattr(X, "shape") else len(X)
    classes, y_codes = _numbered(y, "y", rows)
    values, a_codes = _numbered(attribute, "attribute", rows)
    if len(classes) < 2 or len(values) < 2:
        name, found = ("y", classes) if len(classes) < 2 else ("attribute", values)
        raise ValueError(f"{name} has {len(found)} distinct value(s) but should have at least 2")

    cycle = min(len(classes), len(values))
    matching = (a_codes - y_codes) % cycle == 0
    q = np.where(matching, 1.0, (1 - strength) / (1 - strength + strength * cycle))
    if n_samples is None:
        # The factor keeps a sum that is an integer up to rounding error from being rounded down.
        n_samples = max(1, int(q.sum() * (1 + 1e-12)))
    _check_counts(1, n_samples=n_samples)
    if n_samples > rows:
        raise ValueError(f"n_samples={n_samples} should be <= the {rows} rows of X")

    probability = _inclusion_probabilities(q, n_samples)
    indices = _systematic_sample(probability, _generator(random_state))
    weights = 1 / probability[indices]
    return Bunch(
        indices=indices,
        X=_take(X, indices),
        y=_take(y, indices),
        attribute=_take(attribute, indices),
        weights=weights / weights.mean(),
        selection_probability=probability,
    )


def _draw_three(params, n_sites, columns, random_state):
    """Biased sample, unbiased sample and population of one model, each from its own stream."""
    n_clusters, rate = params["n_clusters"], params["rate"]
    streams = _generator(random_state).integers(2**63, size=3)

    def draw(n, rate, stream):
        rng = np.random.default_rng(stream)
        y = rng.integers(n_clusters, size=n)
        follows = rng.random(n) < rate
        site = np.where(follows, y % n_sites, rng.integers(n_sites, size=n))
        return columns(rng, y, site).astype(np.float64), y, site

    X, y, site = draw(params["n_samples"], rate, streams[0])
    X_unbiased, y_unbiased, site_unbiased = draw(params["n_samples"], 0, streams[1])
    X_population, y_population, site_population = draw(params["n_population"], 0, streams[2])
    # Classes are equally likely in both, so the ratio of the joint probabilities equals that of
    # the conditional probabilities.
    weights = (1 / n_sites) / (rate * (site == y % n_sites) + (1 - rate) / n_sites)
    return Bunch(
        X=X,
        y=y,
        site=site,
        weights=weights / weights.mean(),
        X_unbiased=X_unbiased,
        y_unbiased=y_unbiased,
        site_unbiased=site_unbiased,
        X_population=X_population,
        y_population=y_population,
        site_population=site_population,
        params=params,
    )


def _share_out(n_columns, n_owners):
    """Owner of each column: consecutive blocks whose sizes differ by one at most."""
    return np.arange(n_columns) * n_owners // n_columns


def _switch_on(rng, owner, column_of, on, off):
    owner = owner[:, None] if owner.ndim == 1 else owner
    chance = np.where(owner == column_of, on, off)
    return rng.random(chance.shape) < chance


def _names(kind, owners):
    return [f"{kind}_{owner}_{column:02d}" for column, owner in enumerate(owners)]


def _inclusion_probabilities(q, n_samples):
    """pi = min(1, scale * q) with sum(pi) = n_samples."""
    probability = np.minimum(1, q * (n_samples / q.sum()))
    # The surplus of rows that reach 1 is redistributed to the others; each iteration fixes at
    # least one level of q, and q has few levels.
    while abs(probability.sum() - n_samples) > 1e-9 * n_samples:
        certain = probability >= 1
        rest = n_samples - certain.sum()
        probability = np.minimum(1, np.where(certain, 1, q * (rest / q[~certain].sum())))
    return probability


def _systematic_sample(probability, rng):
    """Draw exactly sum(probability) rows with exactly these inclusion probabilities."""
    certain = probability > 1 - 1e-9
    order = rng.permutation(np.flatnonzero(~certain))
    ticks = np.cumsum(probability[order])
    if len(order):
        ticks[-1] = round(ticks[-1])
    crossed = np.diff(np.floor(ticks + rng.random()), prepend=0) > 0
    return np.sort(np.concatenate([np.flatnonzero(certain), order[crossed]]))


def _generator(random_state):
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31, size=4))
    return np.random.default_rng(random_state)


def _numbered(values, name, rows):
    """Sorted distinct values, and the index of each entry's value."""
    values = np.asarray(values)
    if values.ndim != 1:
        raise ValueError(f"{name} has {values.ndim} dimensions but should have 1")
    if len(values) != rows:
        raise ValueError(f"{name} has {len(values)} entries but X has {rows} rows")
    try:
        return np.unique(values, return_inverse=True)
    except TypeError:
        raise ValueError(
            f"{name} has values that cannot be sorted; missing values should be a string"
        ) from None


def _take(rows, indices):
    if hasattr(rows, "iloc"):
        return rows.iloc[indices]
    if sparse.issparse(rows):
        return rows.tocsr()[indices]
    return rows[indices] if hasattr(rows, "shape") else np.asarray(rows)[indices]


def _check_counts(lowest, **counts):
    for name, value in counts.items():
        if not is_integer(value) or value < lowest:
            raise ValueError(f"{name}={value!r} should be an integer >= {lowest}")


def _check_core(n_core, n_clusters):
    _check_counts(1, n_core=n_core)
    if n_core < n_clusters:
        raise ValueError(
            f"n_core={n_core} should be >= n_clusters={n_clusters}: each class needs a column"
        )


def _is_in(value: Any, low: float, high: float) -> bool:
    return isinstance(value, Real) and low <= float(value) <= high


def _check_rates(*, rate, on, off):
    if not _is_in(rate, 0, 1) or rate == 1:
        raise ValueError(
            f"rate={rate!r} should be a number in [0, 1): at 1 some pairs of class and nuisance "
            "value are never observed, and no weights can correct that"
        )
    for name, value in {"on": on, "off": off}.items():
        if not _is_in(value, 0, 1):
            raise ValueError(f"{name}={value!r} should be a probability in [0, 1]")
