"""audit: whether decorrelating a table is worthwhile, and which columns reflect its collection."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from .._data.sampling import sample_rows
from ..metrics import association, kish_size
from . import _measure
from ._results import Audit, AuditedPair, Notice
from ._verdict import BALANCED, BEYOND_CHANCE, Verdict
from ._view import SourceValues, View, find_sources, settings_of, values_of_source, view_of_table

MAX_AUDIT_PAIRS = 200
MAX_AUDIT_COLUMNS = 5000
MAX_NOTICES = 12
MAX_MISSING = 3
# A column predicts another if a difference exceeds PREDICTS and SURE standard errors.
PREDICTS = 0.2
SURE = 3.0
# A column is reported if it predicts this share of the other columns, by kind, or a smaller share
# if its name is informative. Numbers are not reported: they are often measurements of the subject.
WIDE = {"category": 0.5, "date": 0.5, "two-valued": 0.6, "ordered": 0.6}
WIDE_BY_NAME = 0.2
MIN_OTHERS = 3
# At least this many columns whose names differ only by a number form a family.
MIN_FAMILY = 3
# A column with one value in more than this share of the rows is near-constant.
SAME = 0.99
# If the suspects affect at most this share of the columns, those can be dropped by hand.
NARROW_REACH = 0.1
# Words in column names that indicate data collection. Not "year", which is too common in surveys.
INFORMATIVE = {
    "batch", "campaign", "center", "centre", "channel", "clinic", "cohort", "device", "hospital",
    "interviewer", "lab", "laboratory", "machine", "operator", "plate", "platform", "rater",
    "scanner", "site", "source", "survey", "wave",
}  # fmt: skip


def audit(
    X: Any,
    *,
    suspects: Any = None,
    sample_weight: Any = None,
    encoder: Any = None,
    random_state: int | None = None,
    feature_names: Any = None,
) -> Audit:
    """Audit a table before any clustering: which columns predict each other, and whether
    decorrelation is worthwhile.

    Parameters
    ----------
    X : pandas, polars or pyarrow table, array, CSR matrix, or a file or reader as in DCKM.fit
    suspects : names, indices, mask or None
        Nuisance (batch) columns through which the bias came in: site, scanner, channel. If given,
        ``worth`` is about their associations with the other columns.
    sample_weight : array (n,) or None
        Design weights.
    encoder : TableEncoder or None
        None: one that keeps the 20 most frequent values of a category. Identifiers are reported
        and excluded from all other results.
    random_state : int or None
        Seed of the subsample of data with more than 20,000 rows (fewer if wide); None means 0.
    feature_names : list or None
        Names for the columns of an array; None: column 0, column 1, ...

    Returns
    -------
    Audit

    Examples
    --------
    >>> from unskew.diagnostics import audit
    >>> from unskew.simulate import make_site_footprint
    >>> data = make_site_footprint(1000, rate=0.8, random_state=0)
    >>> found = audit(data.X, suspects=data.suspects)
    >>> found.worth.word, found.notices[0].why
    ('yes', 'predicts many columns')
    """
    sample = sample_rows(X, sample_weight, 0 if random_state is None else random_state)
    notes = [] if sample.chosen is None else [sample.note]
    view = view_of_table(sample.X, sample.a, encoder, feature_names)
    if len(view.source_names) > MAX_AUDIT_COLUMNS:
        raise ValueError(
            f"X has {len(view.source_names)} columns; an audit compares every pair of them and "
            f"accepts at most {MAX_AUDIT_COLUMNS}. Select a subset of the columns"
        )
    named = np.zeros(0, dtype=np.intp)
    if suspects is not None:
        named = find_sources(suspects, view)
        if named.size in (0, len(view.source_names)):
            which = "no column" if named.size == 0 else "every column"
            raise ValueError(
                f"suspects={suspects!r} names {which}; it should name at least one, but not all"
            )
    associations = _measure_associations(view, named)
    notices = (
        *_identifiers(view),
        *_near_constant(view),
        *_wide_reach(view, associations),
        *_informative_missing(view, associations),
    )
    if view.cut:
        notes.append("Because of the number of columns, only those of largest variance were used.")
    names = tuple(view.source_names[s] for s in named)
    order = np.argsort(-associations.reach, kind="stable")
    shown_weight = sample_weight is not None
    settings = settings_of(
        view, sample.X, sample_weight, model="audit",
        call=f"audit(X{_arguments(suspects, shown_weight)})",
        parameters={"suspects": suspects, "encoder": encoder, "random_state": random_state},
        n_rows=sample.n,
    )  # fmt: skip
    return Audit(
        worth=_worth(view, associations, names, notices),
        n_rows=sample.n,
        n_rows_used=view.rows.n,
        n_columns=settings.n_columns,
        n_encoded=view.rows.d,
        suspects=names,
        typical_difference=associations.typical,
        by_chance=associations.by_chance,
        pairs=_describe_pairs(view, associations),
        n_pairs=associations.n_pairs,
        n_pairs_above=associations.n_above,
        notices=tuple(notices[:MAX_NOTICES]),
        reach=tuple(
            (view.source_names[s], float(associations.reach[s])) for s in order if s in view.sources
        ),
        notes=tuple(notes),
        settings=settings,
    )


def _arguments(suspects: Any, weighted: bool) -> str:
    given = "" if suspects is None else f", suspects={suspects!r}"
    return given + (", sample_weight=sample_weight" if weighted else "")


# ----------------------------------------------------------------------------------- associations
class Associations(NamedTuple):
    """Associations of the source columns.

    typical, by_chance
             mean |D| and its expectation under independence, over all pairs, or over the pairs of
             a suspect and another column
    between  largest |D| of source f (row) under source s (column)
    sure     whether it is beyond chance
    reach    share of the other columns that a source predicts
    touched  share of the other columns that some suspect predicts
    missing  source -> reach of its missing values alone
    """

    typical: float
    by_chance: float
    between: np.ndarray
    sure: np.ndarray
    reach: np.ndarray
    touched: float
    missing: dict[int, float]
    n_pairs: int
    n_above: int


def _measure_associations(view: View, named: np.ndarray) -> Associations:
    S = len(view.source_names)
    between, sure = np.zeros((S, S)), np.zeros((S, S), dtype=bool)
    sizes = chance = 0.0
    count = 0
    missing: dict[int, float] = {}
    suspect = np.isin(np.arange(S), named)
    used = np.isin(np.arange(S), view.sources)  # not those that the encoder left out
    others = max(int(used.sum()) - 1, 1)
    for pairs, D in view.differences(view.a):
        D = np.abs(D.astype(np.float64))
        error = np.sqrt(_measure.chance_variance(view, pairs))
        beyond = (D > PREDICTS) & (D > SURE * error)
        of_k, of_j = view.sources[pairs.features], view.sources[pairs.treatments.column]
        fs, ts, largest = _measure.largest_by_source(view, pairs, D)
        between[np.ix_(fs, ts)] = largest
        counted = of_k[:, None] != of_j[None, :]
        if named.size:
            counted &= suspect[of_k][:, None] != suspect[of_j][None, :]
        sizes += float(D[counted].sum())
        by_chance = np.broadcast_to(_measure.size_by_chance(error**2), D.shape)
        chance += float(by_chance[counted].sum())
        count += int(counted.sum())
        missing_indicator = _missing_indicators(view)[pairs.treatments.column]
        for j in np.flatnonzero(missing_indicator):
            source = int(of_j[j])
            hit = np.unique(of_k[beyond[:, j] & (of_k != source)]).size
            missing[source] = hit / others
        beyond[:, missing_indicator] = False  # missing values have notices of their own
        _, _, certain = _measure.largest_by_source(view, pairs, beyond.astype(np.float64))
        sure[np.ix_(fs, ts)] = certain > 0
    np.fill_diagonal(between, 0.0)
    np.fill_diagonal(sure, False)
    touched = 0.0
    if named.size:
        touched = float((sure | sure.T)[np.ix_(used & ~suspect, suspect)].any(axis=1).mean())
    either = np.maximum(between, between.T)[np.ix_(used, used)]
    either = either[np.triu_indices(len(either), 1)]
    per = max(count, 1)
    return Associations(
        sizes / per,
        chance / per,
        between,
        sure,
        sure.sum(axis=0) / others,
        touched,
        missing,
        either.size,
        int((either > BALANCED).sum()),
    )


def _missing_indicators(view: View) -> np.ndarray:
    """Mask of the encoded columns that indicate missing values, of numbers and of categories."""
    notes = view.design.column_map.is_indicator.copy()
    if view.encoder is not None:
        for k, source in enumerate(view.sources):
            notes[k] |= view.names[k] == f"{view.source_names[source]} is missing"
    return notes


def _describe_pairs(view: View, associations: Associations) -> tuple[AuditedPair, ...]:
    S = len(view.source_names)
    either = np.maximum(associations.between, associations.between.T)
    first, second = np.triu_indices(S, 1)
    order = np.argsort(-either[first, second], kind="stable")[:MAX_AUDIT_PAIRS]
    values: dict[int, SourceValues] = {}
    found = []
    for at in order:
        i, j = int(first[at]), int(second[at])
        if either[i, j] == 0:
            break
        for s in (i, j):
            if s not in values:
                values[s] = values_of_source(view, s)
        kind, value = _associate(view, values[i], values[j])
        names = view.source_names[i], view.source_names[j]
        found.append(AuditedPair(*names, float(either[i, j]), kind, value))
    return tuple(found)


def _associate(view: View, one: SourceValues, other: SourceValues) -> tuple[str, float]:
    """|r| of two numbers, eta of a category and a number, Cramer's V of two categories; over the
    rows in which both are observed."""
    if one.kind == "eta":
        one, other = other, one
    a = np.where(one.known & other.known, view.a, 0.0)
    kind = "r" if one.kind == "eta" else other.kind
    if not a.any():
        return kind, 0.0
    if kind == "r":
        return kind, _measure.correlation_between(one.values, other.values, a)
    return kind, association(one.values, other.values, sample_weight=a, kind=kind)


# ---------------------------------------------------------------------------------------- notices
def _identifiers(view: View) -> list[Notice]:
    found = {} if view.encoder is None else view.encoder.identifiers_
    return [
        Notice(name, "identifier", f"“{name}” is left out: {why}.", None)
        for name, why in found.items()
    ]


def _near_constant(view: View) -> list[Notice]:
    """Columns in which one value has nearly all rows, and those excluded because constant."""
    notices = []
    encoder = view.encoder
    for name, why in () if encoder is None else encoder.ignored_.items():
        if name in encoder.identifiers_:
            continue
        notices.append(Notice(str(name), "near-constant", f"“{name}” does not vary: {why}.", None))
    for s, name in enumerate(view.source_names):
        if not (view.sources == s).any():
            continue
        values, kind, _ = values_of_source(view, s)
        codes = np.unique(values, return_inverse=True)[1]
        share = np.bincount(codes, view.a).max() / view.a.sum()
        if share >= 1.0:
            sentence = f"“{name}” does not vary."
        elif share > SAME and kind == "cramers_v":
            sentence = f"“{name}” has one value in {share:.1%} of the rows."
        else:
            continue
        notices.append(Notice(name, "near-constant", sentence, None))
    return notices


def _wide_reach(view: View, associations: Associations) -> list[Notice]:
    """Categories, dates and two-valued columns that predict many others."""
    if np.unique(view.sources).size - 1 < MIN_OTHERS:
        return []
    found = []
    families = Counter(map(_stem, view.source_names))
    for s in np.argsort(-associations.reach, kind="stable"):
        name, reach = view.source_names[s], float(associations.reach[s])
        kind = view.kinds.get(name)
        if kind is None:
            kind = "two-valued" if view.design.stats.two_valued[view.sources == s].all() else ""
        # Members of a numbered family (lab1, lab2, ...) are measurements, whatever their name.
        family = families[_stem(name)] >= MIN_FAMILY
        telling = bool(INFORMATIVE & _words_of(name)) and view.encoder is not None and not family
        wide = kind in WIDE and reach >= WIDE[kind]
        if not wide and not (telling and reach >= WIDE_BY_NAME):
            continue
        hint = ", and its name suggests how the data were collected" if telling else ""
        sentence = f"“{name}” predicts {reach:.0%} of the other columns{hint}."
        found.append((telling, reach, Notice(name, "predicts many columns", sentence, reach)))
    found.sort(key=lambda one: (-one[0], -one[1]))
    return [notice for _, _, notice in found][: MAX_NOTICES - MAX_MISSING]


def _stem(name: str) -> str:
    """A name with a number at its end replaced by "#"; other names are unchanged."""
    return re.sub(r"[ _.-]?\d+$", "#", str(name))


def _words_of(name: str) -> set[str]:
    """Words of a name in any spelling: SurveyYr, survey_year, "survey year"."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}


def _informative_missing(view: View, associations: Associations) -> list[Notice]:
    """Columns whose missing values predict many others, often because of two collection procedures.
    At most MAX_MISSING, because values are mostly missing in blocks of columns."""
    found = []
    for source, reach in sorted(associations.missing.items(), key=lambda one: -one[1]):
        if reach >= WIDE_BY_NAME and np.unique(view.sources).size - 1 >= MIN_OTHERS:
            name = view.source_names[source]
            sentence = f"Where “{name}” is missing, {reach:.0%} of the other columns differ."
            found.append(Notice(name, "missing values predict others", sentence, reach))
    return found[:MAX_MISSING]


# ------------------------------------------------------------------------------------------ worth
def _worth(
    view: View, associations: Associations, suspects: tuple[str, ...], notices: tuple
) -> Verdict:
    """Whether decorrelation is worthwhile: yes, maybe, no."""
    what = "the suspects" if len(suspects) != 1 else f"“{suspects[0]}”"
    between = f"{what} and the other columns" if suspects else "columns"
    reasons = [
        f"The mean difference between {between} is {associations.typical:.2f} standard "
        f"deviations; {associations.by_chance:.2f} is expected by chance.",
        f"{associations.n_above:,} of {associations.n_pairs:,} pairs of columns differ by more "
        f"than {BALANCED}.",
        f"The effective sample size is {kish_size(view.a):,.0f} of {view.rows.n:,} rows.",
    ]
    if associations.typical <= max(BALANCED / 2, BEYOND_CHANCE * associations.by_chance):
        sentence = (
            f"{what.capitalize() if suspects else 'The columns'} hardly "
            + ("predict the other columns" if suspects else "predict each other")
            + ": there is nothing to decorrelate, and k-means is sufficient."
        )
        return Verdict("no", sentence, tuple(reasons))
    if suspects:
        reasons.append(f"{associations.touched:.0%} of the other columns depend on {what}.")
        if associations.touched <= NARROW_REACH:
            sentence = (
                f"Only {associations.touched:.0%} of the other columns depend on {what}: drop "
                "those columns first, and compare."
            )
            return Verdict("maybe", sentence, tuple(reasons))
        sentence = (
            f"{associations.touched:.0%} of the other columns depend on {what}: dropping "
            f"{'it' if len(suspects) == 1 else 'them'} would not remove that, so decorrelation is "
            "worthwhile."
        )
        return Verdict("yes", sentence, tuple(reasons))
    wide = [x for x in notices if x.why == "predicts many columns"]
    if wide:
        sentence = (
            f"Columns predict each other; “{wide[0].column}” predicts most others. If it describes "
            "how the data were collected rather than their subject, name it as a suspect."
        )
        return Verdict("maybe", sentence, tuple(reasons))
    sentence = (
        "Columns predict each other, but no single column seems to reflect how the data were "
        "collected: decorrelating all pairs could split real clusters."
    )
    return Verdict("maybe", sentence, tuple(reasons))
