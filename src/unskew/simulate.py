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
    "make_sites",
    "make_spurious_background",
    "make_tinted_digits",
    "select_by_site",
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


def make_sites(
    n_samples=2000,
    *,
    n_clusters=4,
    n_sites=4,
    n_features=10,
    rate=0.8,
    n_shared=None,
    selection=None,
    separation=1.5,
    shift=1.0,
    spread=0.0,
    interaction=0.0,
    tails=None,
    shares=None,
    site_shares=None,
    n_suspects=1,
    numeric=False,
    n_population=None,
    random_state=None,
):
    """Gaussian groups at sites that shift and stretch the columns, with any pattern of selection.

    The model, for a row of group k at site s:

        x  =  C_k + B_s + D_ks + exp(T_s) e      C ~ separation * N(0, 1), B ~ shift * N(0, 1),
                                                 D ~ interaction * N(0, 1), T ~ spread * N(0, 1),
                                                 e ~ N(0, 1), or Student's t scaled to variance 1

    for each column independently. C, B, D and T are drawn once per data set; they depend on
    `random_state` and the sizes only, and not on the selection. In the population the group and the
    site are independent, apart from pairs that do not exist; in the biased sample a row of the
    population is observed with probability

        selection[k, s]  =  1            at the home site of the group, s = k mod n_sites
                            1 - rate     at other sites, for the first `n_shared` groups
                            0            at other sites, for the other groups

    Where it is 0, the group does not exist at the site, neither in the sample nor in the
    population. The true weight of a row is 1 / selection[k, s], scaled to mean 1: it makes group
    and site independent if all pairs exist.

    Parameters
    ----------
    n_samples : int, default=2000
        Rows of the biased sample and of the unbiased sample.
    n_clusters : int, default=4
        Number of groups; 1 means that there are none.
    n_sites : int, default=4
        Number of sites, at least 2.
    n_features : int, default=10
        Number of columns besides the suspects.
    rate : float in [0, 1), default=0.8
        Strength of the selection; 0 is none.
    n_shared : int, default=None
        Number of groups that are at all sites, through which the sites are joined; the others are
        at their home only. None means all groups. With 0 no group is at two sites, and with
        n_clusters = n_sites each site has one group only.
    selection : array of shape (n_clusters, n_sites), default=None
        Probabilities of selection instead of those of `rate` and `n_shared`, for example
        [[1, 0, 1], [0, 1, 1]]: two sites with one group each, and one with both.
    separation, shift, spread, interaction : float >= 0, default=1.5, 1.0, 0.0, 0.0
        Standard deviation, over columns, of the means of the groups, of the effects of the sites on
        the means, on the logarithm of the standard deviation, and of effects that are different
        for each group.
    tails : float > 2, default=None
        Degrees of freedom of Student's t; None means Gaussian.
    shares, site_shares : array of shape (n_clusters,), (n_sites,), default=None
        Relative frequencies of groups and sites before selection; None means equal.
    n_suspects : int, default=1
        Number of nuisance variables, each with `n_sites` values and effects of its own. The home
        of group k at variable j is digit j of k in base n_sites; probabilities of selection are
        multiplied. `selection` and `n_shared` need n_suspects=1.
    numeric : bool, default=False
        The nuisance variables are numbers t ~ N(0, 1) with linear effects t * (B + D_k) on the
        means and t * T on the logarithm of the standard deviation, instead of sites. A row of
        group k is observed with probability 1 - rate + rate * exp(-2 (t - h_k)^2), with homes h_k
        from -1.5 to 1.5. `selection`, `n_shared` and `site_shares` do not apply.
    n_population : int, default=None
        Rows of the population; None means `n_samples`.
    random_state : int, numpy Generator, RandomState or None
        Source of the random numbers.

    Returns
    -------
    Bunch with
        X, y, site : the biased sample (features, then the suspects: one-hot sites, or numbers), its
            groups, and its sites: integer codes or numbers, of shape (n,), or (n, n_suspects)
        weights : true inverse-selection weights of the biased sample, mean 1
        X_unbiased, y_unbiased, site_unbiased : a sample of the population of the same size
        X_population, y_population, site_population : the population
        core, suspects : column indices; suspects are nuisance (batch) columns through which the
            bias came in, here the columns of the sites
        feature_names, params

    Examples
    --------
    >>> import numpy as np
    >>> from unskew.simulate import make_sites
    >>> data = make_sites(4000, rate=0.8, random_state=0)
    >>> data.X.shape, data.feature_names[-1]
    ((4000, 14), 'site_3')
    >>> at_home = data.site == data.y
    >>> round(float(at_home.mean()), 2), round(float(np.average(at_home, weights=data.weights)), 2)
    (0.63, 0.25)
    >>> pure = make_sites(500, n_shared=0, random_state=0)
    >>> bool((pure.site == pure.y).all())
    True
    """
    n_population = n_samples if n_population is None else n_population
    _check_counts(1, n_samples=n_samples, n_population=n_population, n_features=n_features)
    _check_counts(1, n_clusters=n_clusters, n_suspects=n_suspects)
    _check_counts(2, n_sites=n_sites)
    _check_rates(rate=rate, on=1.0, off=0.0)
    sizes = {
        "separation": separation, "shift": shift, "spread": spread, "interaction": interaction
    }  # fmt: skip
    for name, value in sizes.items():
        if not _is_in(value, 0, np.finfo(float).max):
            raise ValueError(f"{name}={value!r} should be a finite number >= 0")
    if tails is not None and (not _is_in(tails, 2, np.inf) or tails == 2):
        raise ValueError(f"tails={tails!r} should be > 2, for a finite variance, or None")
    given = {"selection": selection, "n_shared": n_shared}
    for name, value in given.items():
        if value is not None and (n_suspects > 1 or numeric):
            why = f"n_suspects={n_suspects}" if n_suspects > 1 else "numeric=True"
            raise ValueError(f"{name}={value!r} should be None with {why}")
    if numeric and site_shares is not None:
        raise ValueError(f"site_shares={site_shares!r} should be None with numeric=True")
    if selection is None:
        chance = _home_selection(n_clusters, n_sites, rate, n_shared)
    elif n_shared is not None:
        raise ValueError(f"n_shared={n_shared!r} should be None with a given selection")
    else:
        chance = _check_selection(selection, n_clusters, n_sites)
    p_group = _check_shares("shares", shares, n_clusters)
    p_site = _check_shares("site_shares", site_shares, n_sites)
    params = {
        "n_samples": n_samples, "n_clusters": n_clusters, "n_sites": n_sites,
        "n_features": n_features, "rate": rate, "n_shared": n_shared, "selection": selection,
        **sizes, "tails": tails, "shares": shares, "site_shares": site_shares,
        "n_suspects": n_suspects, "numeric": numeric, "n_population": n_population,
        "random_state": random_state,
    }  # fmt: skip

    streams = _generator(random_state).integers(2**63, size=4)
    rng = np.random.default_rng(streams[3])
    n_levels = 1 if numeric else n_sites
    C = separation * rng.normal(size=(n_clusters, n_features))
    B = shift * rng.normal(size=(n_suspects, n_levels, n_features))
    D = interaction * rng.normal(size=(n_suspects, n_clusters, n_levels, n_features))
    T = spread * rng.normal(size=(n_suspects, n_levels, n_features))
    homes = np.linspace(-1.5, 1.5, n_clusters) if n_clusters > 1 else np.zeros(1)

    def probability(y, values):
        """Probability of selection of rows of the population; 0 where they do not exist."""
        found = np.ones(y.size)
        for j, value in enumerate(values.T):
            if numeric:
                found *= 1 - rate + rate * np.exp(-2 * (value - np.roll(homes, j)[y]) ** 2)
            elif n_suspects == 1:
                found *= chance[y, value]
            else:
                found *= np.where(value == y // n_sites**j % n_sites, 1.0, 1 - rate)
        return found

    def draw(n, biased, stream):
        rng = np.random.default_rng(stream)
        y, values, probabilities = [], [], []
        missing = n
        while missing > 0:
            size = 2 * n + 100
            y_new = rng.choice(n_clusters, size=size, p=p_group)
            if numeric:
                new = rng.normal(size=(size, n_suspects))
            else:
                new = rng.choice(n_sites, size=(size, n_suspects), p=p_site)
            p = probability(y_new, new)
            keep = np.flatnonzero(rng.random(size) < (p if biased else p > 0))[:missing]
            y.append(y_new[keep])
            values.append(new[keep])
            probabilities.append(p[keep])
            missing -= keep.size
        group, level = np.concatenate(y), np.concatenate(values)
        mean, log_sd = C[group], np.zeros((n, n_features))
        for j, value in enumerate(level.T):
            if numeric:
                mean = mean + value[:, None] * (B[j, 0] + D[j, group, 0])
                log_sd = log_sd + value[:, None] * T[j, 0]
            else:
                mean = mean + B[j, value] + D[j, group, value]
                log_sd = log_sd + T[j, value]
        if tails is None:
            noise = rng.normal(size=mean.shape)
        else:
            df = float(tails)
            noise = rng.standard_t(df, size=mean.shape) * np.sqrt((df - 2) / df)
        columns = [mean + np.exp(log_sd) * noise]
        for value in level.T:
            columns.append(value[:, None] if numeric else value[:, None] == np.arange(n_sites))
        site = level[:, 0] if n_suspects == 1 else level
        return np.hstack(columns).astype(np.float64), group, site, np.concatenate(probabilities)

    X, y, site, p = draw(n_samples, True, streams[0])
    X_unbiased, y_unbiased, site_unbiased, _ = draw(n_samples, False, streams[1])
    X_population, y_population, site_population, _ = draw(n_population, False, streams[2])
    prefixes = ["site" if n_suspects == 1 else f"site{j}" for j in range(n_suspects)]
    names = [f"{p}_{s}" for p in prefixes for s in range(n_sites)]
    return Bunch(
        X=X,
        y=y,
        site=site,
        weights=(1 / p) / (1 / p).mean(),
        X_unbiased=X_unbiased,
        y_unbiased=y_unbiased,
        site_unbiased=site_unbiased,
        X_population=X_population,
        y_population=y_population,
        site_population=site_population,
        core=np.arange(n_features),
        suspects=np.arange(n_features, X.shape[1]),
        feature_names=[f"x_{i}" for i in range(n_features)] + (prefixes if numeric else names),
        params=params,
    )


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


def select_by_site(X, y, site, rate, *, random_state=None):
    """Draw a sample in which each group of a labelled data set is mainly observed at its home site.

    The L values of `site` and the groups of `y`, each in sorted order, are numbered from 0. The
    home of group k is site k mod L, or the next site (cyclically) at which the group occurs. A row
    is selected with probability

        pi_i = 1            if it is at the home of its group
        pi_i = 1 - rate     otherwise

    so that groups that occur at one site only are complete at any rate. The number of selected rows
    of each site differs from its expectation by less than 1 (systematic sampling by site).

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, d)
        The data.
    y, site : array of shape (n,)
        Groups, and sites (batches).
    rate : float in [0, 1)
        Strength of the selection; 0 selects all rows.
    random_state : int, numpy Generator, RandomState or None
        Source of the random numbers.

    Returns
    -------
    Bunch with
        indices : the selected rows of the input, ascending
        X, y, site : these rows
        weights : true inverse-selection weights of these rows, mean 1
        selection_probability : pi for every row of the input, shape (n,)
        home : dict, home site of each group

    Examples
    --------
    >>> import numpy as np
    >>> from unskew.simulate import select_by_site
    >>> y, site = np.arange(1200) % 3, np.repeat(["a", "b", "c"], 400)
    >>> sample = select_by_site(np.eye(3)[y], y, site, 0.8, random_state=0)
    >>> sample.home
    {0: 'a', 1: 'b', 2: 'c'}
    >>> sample.X.shape, round(float(np.mean(sample.site[sample.y == 1] == "b")), 1)
    ((562, 3), 0.7)
    """
    if not _is_in(rate, 0, 1) or rate == 1:
        raise ValueError(f"rate={rate!r} should be a number in [0, 1)")
    rows = X.shape[0] if hasattr(X, "shape") else len(X)
    groups, y_codes = _numbered(y, "y", rows)
    sites, site_codes = _numbered(site, "site", rows)
    L = len(sites)
    counts = np.zeros((len(groups), L), dtype=int)
    np.add.at(counts, (y_codes, site_codes), 1)
    homes = np.array(
        [next(s for s in (np.arange(L) + k) % L if counts[k, s]) for k in range(len(groups))]
    )
    probability = np.where(site_codes == homes[y_codes], 1.0, 1.0 - float(rate))
    # Systematic sampling along the rows sorted by site: a site cannot lose all of its rows by
    # chance.
    rng = _generator(random_state)
    order, tick = rng.permutation(rows), rng.random()
    order = order[np.argsort(site_codes[order], kind="stable")]
    ticks = np.floor(np.cumsum(probability[order]) * (1 + 1e-12) + tick)
    indices = np.sort(order[np.diff(ticks, prepend=0.0) > 0])
    weights = 1 / probability[indices]
    return Bunch(
        indices=indices,
        X=_take(X, indices),
        y=_take(y, indices),
        site=_take(site, indices),
        weights=weights / weights.mean(),
        selection_probability=probability,
        home={group: sites[home].item() for group, home in zip(groups.tolist(), homes)},
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


def _home_selection(n_clusters, n_sites, rate, n_shared):
    """Probability of selection of each group at each site; see `make_sites`."""
    n_shared = n_clusters if n_shared is None else n_shared
    _check_counts(0, n_shared=n_shared)
    if n_shared > n_clusters:
        raise ValueError(f"n_shared={n_shared} should be <= n_clusters={n_clusters}")
    group = np.arange(n_clusters)[:, None]
    elsewhere = np.where(group < n_shared, 1.0 - rate, 0.0)
    return np.where(group % n_sites == np.arange(n_sites), 1.0, elsewhere)


def _check_selection(selection, n_clusters, n_sites):
    chance = np.asarray(selection, dtype=np.float64)
    if chance.shape != (n_clusters, n_sites):
        raise ValueError(
            f"selection has shape {chance.shape} but should have (n_clusters, n_sites) = "
            f"{(n_clusters, n_sites)}"
        )
    if not ((chance >= 0) & (chance <= 1)).all() or not chance.any():
        raise ValueError("selection should have probabilities in [0, 1], at least one positive")
    return chance


def _check_shares(name, shares, size):
    if shares is None:
        return np.full(size, 1 / size)
    found = np.asarray(shares, dtype=np.float64)
    if found.shape != (size,) or not np.isfinite(found).all() or not (found > 0).all():
        raise ValueError(f"{name}={shares!r} should be {size} positive numbers")
    return found / found.sum()


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
