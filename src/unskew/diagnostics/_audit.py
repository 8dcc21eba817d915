"""audit: whether correcting a table is worthwhile, and which columns reflect its collection."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._data.sampling import sample_rows
from ..metrics import association, kish_size
from . import _measure
from ._candidates import MIN_ROWS, find_candidates
from ._results import Audit, AuditedPair, Candidate, Notice
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
# A candidate that shifts this share of the other columns suggests the collection by itself.
TRACE = 0.5
# "no" needs an effective sample size of at least this; below it, only strong effects are seen.
ENOUGH_ROWS = 200
# Candidates that the reasons of the verdict describe.
MAX_REASONS = 3
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
    """Audit a table before any clustering: which columns look like traces of the collection, and
    whether a correction is worthwhile.

    Columns of few values are candidates. Each is compared with groups of rows that the other
    columns form: it has an effect (it shifts other columns within groups), only a selection (the
    shares of the groups differ by its values) or neither. Whether a column with an effect describes
    the collection or the subject needs domain knowledge; ``worth`` is "yes" where the name of the
    column, or a shift of at least half of the other columns, suggests the collection.

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
    >>> found.worth.word, found.candidates[0].role
    ('yes', 'effect')
    """
    seed = 0 if random_state is None else random_state
    sample = sample_rows(X, sample_weight, seed)
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
        *_survey_weights(view, sample_weight),
        *_identifiers(view, sample.n),
        *_near_constant(view),
        *_wide_reach(view, associations),
        *_informative_missing(view, associations),
    )
    priority = associations.reach + [_has_telling_name(view, name) for name in view.source_names]
    candidates, note = find_candidates(
        sample.X, view.a, view.source_names, view.encoder, named, priority, seed
    )
    if note:
        notes.append(note)
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
        worth=_worth(view, associations, names, candidates),
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
        candidates=candidates,
        notices=tuple(notices[:MAX_NOTICES]),
        reach=tuple(
            (view.source_names[s], float(associations.reach[s])) for s in order if s in view.sources
        ),
        notes=tuple(notes),
        settings=replace(settings, suspects=names),
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
    ratio    largest |D| / standard error of source f (row) under source s (column), without
             indicators of missing values: the largest |D| of a rare value is large by chance
    between  the |D| of that ratio
    sure     whether it is beyond chance
    reach    share of the other columns that a source predicts
    missing  source -> reach of its missing values alone
    """

    typical: float
    by_chance: float
    between: np.ndarray
    ratio: np.ndarray
    sure: np.ndarray
    reach: np.ndarray
    missing: dict[int, float]
    n_pairs: int
    n_above: int


def _measure_associations(view: View, named: np.ndarray) -> Associations:
    S = len(view.source_names)
    between, ratio, sure = np.zeros((S, S)), np.zeros((S, S)), np.zeros((S, S), dtype=bool)
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
        indicators = _missing_indicators(view)
        missing_indicator = indicators[pairs.treatments.column]
        observed = ~(indicators[pairs.features][:, None] | missing_indicator)
        relative = np.divide(D, error, out=np.zeros_like(D), where=(error > 0) & observed)
        fs, ts, largest = _measure.largest_by_source(view, pairs, relative)
        ratio[np.ix_(fs, ts)] = largest
        most_certain = (relative > 0) & (relative == ratio[of_k[:, None], of_j])
        between[np.ix_(fs, ts)] = _measure.largest_by_source(
            view, pairs, np.where(most_certain, D, 0.0)
        )[2]
        counted = of_k[:, None] != of_j[None, :]
        if named.size:
            counted &= suspect[of_k][:, None] != suspect[of_j][None, :]
        sizes += float(D[counted].sum())
        by_chance = np.broadcast_to(_measure.size_by_chance(error**2), D.shape)
        chance += float(by_chance[counted].sum())
        count += int(counted.sum())
        for j in np.flatnonzero(missing_indicator):
            source = int(of_j[j])
            hit = np.unique(of_k[beyond[:, j] & (of_k != source)]).size
            missing[source] = hit / others
        beyond[:, missing_indicator] = False  # missing values have notices of their own
        _, _, certain = _measure.largest_by_source(view, pairs, beyond.astype(np.float64))
        sure[np.ix_(fs, ts)] = certain > 0
    np.fill_diagonal(between, 0.0)
    np.fill_diagonal(ratio, 0.0)
    np.fill_diagonal(sure, False)
    differs = (between > BALANCED) & (ratio > SURE)
    either = (differs | differs.T)[np.ix_(used, used)]
    either = either[np.triu_indices(len(either), 1)]
    per = max(count, 1)
    return Associations(
        sizes / per,
        chance / per,
        between,
        ratio,
        sure,
        sure.sum(axis=0) / others,
        missing,
        either.size,
        int(either.sum()),
    )


def _missing_indicators(view: View) -> np.ndarray:
    """Mask of the encoded columns that indicate missing values, of numbers and of categories."""
    notes = view.design.column_map.is_indicator.copy()
    if view.encoder is not None:
        for k, source in enumerate(view.sources):
            notes[k] |= view.names[k] == f"{view.source_names[source]} is missing"
    return notes


def _describe_pairs(view: View, associations: Associations) -> tuple[AuditedPair, ...]:
    """The most associated of the pairs whose differences are most certain."""
    S = len(view.source_names)
    either = np.maximum(associations.between, associations.between.T)
    ratio = np.maximum(associations.ratio, associations.ratio.T)
    first, second = np.triu_indices(S, 1)
    order = np.argsort(-ratio[first, second], kind="stable")[:MAX_AUDIT_PAIRS]
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
    return tuple(sorted(found, key=lambda pair: -pair.association))


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
def _survey_weights(view: View, given: Any) -> list[Notice]:
    """Columns that seem to be weights of a survey, if none are given."""
    if view.encoder is None or given is not None:
        return []
    return [
        Notice(
            name,
            "survey weights",
            f"“{name}” seems to hold survey weights ({text}): pass them as weights of the rows.",
            None,
        )
        for topic, name, text in view.encoder.findings_
        if topic == "weights"
    ]


def _identifiers(view: View, n: int) -> list[Notice]:
    found = {} if view.encoder is None else view.encoder.identifiers_
    if n > view.rows.n:  # counts of the subsample are not those of the table
        found = {
            name: re.sub(r"^[\d,]+ different \w+ in [\d,]+ rows:? ", "", why)
            for name, why in found.items()
        }
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
    for s in np.argsort(-associations.reach, kind="stable"):
        name, reach = view.source_names[s], float(associations.reach[s])
        kind = view.kinds.get(name)
        if kind is None:
            kind = "two-valued" if view.design.stats.two_valued[view.sources == s].all() else ""
        telling = _has_telling_name(view, name)
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
    view: View,
    associations: Associations,
    suspects: tuple[str, ...],
    candidates: tuple[Candidate, ...],
) -> Verdict:
    """Whether a correction is worthwhile: yes, no, cannot tell."""
    what = "the suspects" if len(suspects) != 1 else f"“{suspects[0]}”"
    between = f"{what} and the other columns" if suspects else "columns"
    size = kish_size(view.a)
    reasons = [
        *(
            sentence
            for one in candidates[:MAX_REASONS]
            for sentence in (f"{_describe_candidate(one)}.", one.overlap and one.overlap.sentence)
            if sentence
        ),
        f"The mean difference between {between} is {associations.typical:.2f} standard "
        f"deviations; {associations.by_chance:.2f} is expected by chance.",
        f"The effective sample size (Kish) is {size:,.0f} of {view.rows.n:,} rows "
        f"({size / view.rows.n:.0%}).",
    ]
    if candidates:
        word, sentence = _answer(view, bool(suspects), candidates, size)
    elif size < MIN_ROWS:
        word, sentence = "cannot tell", f"{size:,.0f} rows are too few to test columns for effects."
    elif associations.typical <= max(BALANCED / 2, BEYOND_CHANCE * associations.by_chance):
        word, sentence = (
            "no",
            (
                f"The columns hardly predict each other: their mean difference is "
                f"{associations.typical:.2f} standard deviations, and {associations.by_chance:.2f} "
                "is expected by chance."
            ),
        )
    else:
        word, sentence = (
            "cannot tell",
            (
                "No column has few values, so that none was tested for effects: name a suspect if "
                "a column describes how the data were collected."
            ),
        )
    return Verdict(word, sentence, tuple(reasons))


def _answer(
    view: View, named: bool, candidates: tuple[Candidate, ...], size: float
) -> tuple[str, str]:
    active = [one for one in candidates if one.role != "neither"]
    if not active:
        sentence = _describe_candidate(candidates[0])
        if len(candidates) > 1:
            sentence = (
                f"None of the {len(candidates)} tested columns depends on the other columns as far "
                f"as the data show (smallest p = {min(c.p_dependence for c in candidates):.2g})"
            )
        if size < ENOUGH_ROWS:
            return "cannot tell", f"{sentence}, but {size:,.0f} rows are too few for weak effects."
        return "no", f"{sentence}: nothing needs a correction."
    if named:
        return "yes", f"{_describe_candidate(active[0])}: a correction is worthwhile."
    traces = [one for one in active if _has_telling_name(view, one.column)]
    traces += [one for one in active if one.role == "effect" and one.shifted >= TRACE]
    if traces:
        return "yes", (
            f"{_describe_candidate(traces[0])}: name it as a suspect if it describes how the data "
            "were collected rather than their subject."
        )
    return "no", (
        f"No column looks like a trace of the collection: by name none does, and none shifts at "
        f"least {TRACE:.0%} of the other columns. {_describe_candidate(active[0])}."
    )


def _describe_candidate(one: Candidate) -> str:
    """A sentence, without its full stop, with the number that decides."""
    if one.role == "effect":
        return (
            f"“{one.column}” shifts {one.shifted:.0%} of the other columns within groups of rows, "
            f"by {one.shift:.2f} standard deviations on average ({_format_p(one.p_effect)})"
        )
    if one.role == "selection":
        return (
            f"The shares of the groups of rows differ by “{one.column}” "
            f"({_format_p(one.p_dependence)}), and no column is shifted within the groups"
        )
    return (
        f"“{one.column}” is independent of the other columns as far as the data show "
        f"({_format_p(one.p_dependence)})"
    )


def _format_p(p: float) -> str:
    return f"p = {p:.2g}"


def _has_telling_name(view: View, name: str) -> bool:
    """Whether the name of a column of a table suggests the collection. Members of a numbered family
    (lab1, lab2, ...) are measurements, whatever their name."""
    if view.encoder is None or not INFORMATIVE & _words_of(name):
        return False
    return sum(_stem(other) == _stem(name) for other in view.source_names) < MIN_FAMILY
