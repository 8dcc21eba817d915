"""Pictures: Axes in, Axes out, readable with 3 and with 300 features."""

import dataclasses
import subprocess
import sys
import warnings

import numpy as np
import pytest

from unskew import DCKM
from unskew.diagnostics import audit, compare, diagnose
from unskew.simulate import make_site_footprint

pytest.importorskip("matplotlib")
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from unskew import plots
from unskew.plots import _style

OF_A_FIT = [
    "love_plot",
    "correlation_map",
    "weight_distribution",
    "clusters_2d",
    "sample_flow",
    "objective_terms",
]


def fit(n_core, n_footprint, n=300):
    data = make_site_footprint(n, n_core=n_core, n_footprint=n_footprint, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        how = {"adjust": "weights", "n_init": 1, "random_state": 0}
        model = DCKM(4, suspects=data.suspects, **how).fit(data.X)
    return diagnose(model, data.X)


@pytest.fixture(scope="module")
def small():
    return fit(4, 1)


@pytest.fixture(scope="module")
def wide():
    return fit(160, 136)


def draw(ax):
    """Draw for good: errors of layout, fonts and missing glyphs come out here."""
    ax.figure.draw_without_rendering()


def texts(ax):
    return [t.get_text() for t in ax.get_yticklabels()]


@pytest.mark.parametrize("name", OF_A_FIT)
def test_every_picture_makes_its_own_axes_or_takes_them(name, small, wide):
    for found in (small, wide):
        own = getattr(plots, name)(found)
        assert isinstance(own, Axes)
        draw(own)
        given = Figure(figsize=(5, 4)).add_subplot()
        assert getattr(plots, name)(found, given) is given
        draw(given)


def test_no_picture_uses_pyplot():
    code = "import sys, unskew.plots; sys.exit('matplotlib.pyplot' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_drawing_leaves_the_settings_of_others_alone(small):
    import matplotlib as mpl

    own = ("font.size", "text.color", "axes.edgecolor", "svg.fonttype", "text.parse_math")
    before = [mpl.rcParams[name] for name in own]
    plots.love_plot(small)
    assert [mpl.rcParams[name] for name in own] == before


def test_love_plot_shows_the_largest_and_says_how_many_are_left_out(wide, small):
    ax = plots.love_plot(wide, most=25)
    assert len(texts(ax)) == 25
    assert "271 omitted" in ax.get_title(loc="left")
    top = max(wide.features, key=lambda f: f.before)
    assert texts(ax)[0] == _style.shorten(top.feature)
    assert plots.love_plot(small).get_title(loc="left") == ""


def test_love_plot_marks_the_threshold(small):
    lines = plots.love_plot(small, threshold=0.25).lines
    assert any(np.allclose(line.get_xdata(), 0.25) for line in lines)


def test_love_plot_names_the_colour_of_columns_that_got_worse(small):
    row = dataclasses.replace(small.features[0], before=0.2, after=0.4)
    labels = [
        [text.get_text() for text in plots.love_plot(rows).get_legend().get_texts()]
        for rows in ([row], [dataclasses.replace(row, after=0.1)])
    ]
    assert labels == [["before", "after", "increased"], ["before", "after"]]


def test_legends_read_row_by_row():
    from unskew.plots._style import in_rows

    assert in_rows(list(range(5)), 3) == [0, 3, 1, 4, 2]


def test_maps_show_before_and_after_on_one_scale(wide):
    before, after = plots.correlation_maps(wide)
    assert before.images[0].get_clim() == after.images[0].get_clim()
    assert np.abs(before.images[0].get_array()).mean() > np.abs(after.images[0].get_array()).mean()
    assert "60 of 300 encoded columns" in before.get_title(loc="left")
    with pytest.raises(ValueError, match="which='now'"):
        plots.correlation_map(wide, which="now")
    with pytest.raises(ValueError, match="axes has 1 entries"):
        plots.correlation_maps(wide, [before])


def test_histogram_holds_every_row(small):
    bars = plots.weight_distribution(small).patches
    assert sum(bar.get_height() for bar in bars) == small.weights.n_rows


def test_points_grow_with_their_weight(small):
    ax = plots.clusters_2d(small)
    sizes = {float(c.get_sizes()[0]) for c in ax.collections}
    assert len(sizes) > 1
    assert sum(len(c.get_offsets()) for c in ax.collections) == len(small.projection.x)


def test_bands_of_the_flow_have_the_height_of_their_rows(small):
    ax = plots.sample_flow(small)
    bars = [p for p in ax.patches if p.__class__.__name__ == "Rectangle"]
    sizes = np.array(small.flow.counts)
    heights = np.array([bar.get_height() for bar in bars])
    expected = np.stack([sizes.sum(1), sizes.sum(0)], axis=1).ravel()
    np.testing.assert_allclose(heights / heights.sum(), expected / expected.sum())
    bands = [p for p in ax.patches if p.__class__.__name__ == "PathPatch"]
    assert len(bands) == (sizes >= 0.01 * sizes.sum()).sum()


def test_profiles_show_each_cluster(small):
    axes = plots.cluster_profiles(small, most=3)
    assert len(axes) == len(small.clusters)
    draw(axes[0])
    assert len({ax.get_xlim() for ax in axes}) == 1
    for ax, profile in zip(axes, small.clusters):
        widths = [bar.get_width() for bar in ax.patches]
        assert widths == pytest.approx([f.difference for f in profile.features[:3]])
    with pytest.raises(ValueError, match="cluster=9"):
        plots.cluster_profile(small, 9)
    with pytest.raises(ValueError, match="axes has 1 entries but there are 4"):
        plots.cluster_profiles(small, [axes[0]])


def test_terms_that_are_always_zero_are_left_out(small):
    labels = [line.get_label() for line in plots.objective_terms(small).lines]
    assert "objective" in labels
    assert "mass" not in labels


def test_surface_has_a_cell_for_each_pair_of_settings():
    ax = plots.sensitivity_surface([0.1, 1, 10], [1, 2], [[0.1, 0.2, 0.3], [0.4, None, 0.6]])
    draw(ax)
    assert sorted(t.get_text() for t in ax.texts) == ["0.1", "0.2", "0.3", "0.4", "0.6"]
    with pytest.raises(ValueError, match=r"should be \(len\(y\), len\(x\)\) = \(2, 3\)"):
        plots.sensitivity_surface([1, 2, 3], [1, 2], [[1, 2], [3, 4]])


def test_pictures_without_their_numbers_say_so(small):
    from dataclasses import replace

    with pytest.raises(ValueError, match="no flow"):
        plots.sample_flow(replace(small, flow=None))
    with pytest.raises(ValueError, match="no clusters"):
        plots.clusters_2d(replace(small, projection=None))
    with pytest.raises(ValueError, match="no clusters"):
        plots.cluster_profiles(replace(small, clusters=()))


def test_audits_and_comparisons_are_drawn():
    data = make_site_footprint(200, n_core=8, n_footprint=8, random_state=0)
    own = audit(data.X)
    assert len(plots.audited_pairs(own, most=7).patches) == 7
    assert len(plots.reach_of_columns(own, most=5).patches) == 5
    methods = compare(
        data.X, 3, suspects=data.suspects, method="dckm", n_init=1, random_state=0,
        methods=["kmeans", "dropped"],
    )  # fmt: skip
    axes = plots.method_scores(methods)
    assert len(axes) == 4
    draw(axes[0])


def test_effects_of_suspects_are_drawn_with_their_sign(small):
    from unskew.diagnostics import SuspectEffect

    effects = (SuspectEffect("site=a", "x", -0.8), SuspectEffect("site=b", "y", 0.5))
    ax = plots.suspect_effects(effects)
    draw(ax)
    assert [bar.get_width() for bar in ax.patches] == [-0.8, 0.5]
    with pytest.raises(ValueError, match="no effects"):
        plots.suspect_effects(small)


@pytest.mark.parametrize("palette", [_style.PALETTE, _style.SUSPECT_PALETTE])
def test_colours_are_distinguishable_without_red_and_green(palette):
    """Distances as a deuteranope sees them (Machado et al. 2009), all pairs of the palette."""
    eyes = np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]])
    seen = np.array([eyes @ np.array(to_rgb(c)) for c in palette])
    gaps = np.linalg.norm(seen[:, None] - seen[None], axis=2)
    assert gaps[np.triu_indices(len(seen), 1)].min() > 0.12


def test_many_clusters_differ_by_colour_or_marker():
    looks = {(_style.cluster_colour(k), _style.cluster_marker(k)) for k in range(56)}
    assert len(looks) == 56


def test_values_of_suspects_look_different_from_each_other_and_from_clusters():
    looks = {(_style.suspect_colour(k), _style.suspect_marker(k)) for k in range(35)}
    assert len(looks) == 35
    assert not set(_style.SUSPECT_PALETTE) & set(_style.PALETTE)
    assert _style.cluster_marker(0) not in _style.SUSPECT_MARKERS


def test_names_are_text_whatever_is_in_them():
    data = make_site_footprint(200, n_core=4, n_footprint=2, random_state=0)
    pd = pytest.importorskip("pandas")
    names = ["$x_1$", "a_b^c", "<b>", "\\frac", "名前", "x" * 80, *map(str, range(4))]
    table = pd.DataFrame(data.X.astype(float), columns=names)
    model = DCKM(2, suspects=names[-1], n_init=1, random_state=0).fit(table)
    ax = plots.love_plot(diagnose(model, table))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # no font here has all letters
        draw(ax)
    assert {"$x_1$", "<b>", "\\frac"} <= set(texts(ax))
    assert all(len(t) <= 26 for t in texts(ax))


def test_pictures_of_a_correction():
    from unskew import SelectionMixture, SuspectCorrector
    from unskew.simulate import make_sites

    data = make_sites(200, n_clusters=3, n_features=4, random_state=0)
    X = np.c_[data.X, data.site]
    given = {"n_components": 3, "covariance": "diag", "kinds": {4: "category"}, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = SuspectCorrector(suspects=[4], **given).fit(X)
        plain = SelectionMixture(suspects=[4], effects="none", **given).fit(X)
    axes = plots.correction(fitted, X)
    assert [ax.get_title(loc="left")[:6] for ax in axes] == ["before", "before", "after,", "after,"]
    points = [np.vstack([c.get_offsets() for c in ax.collections]) for ax in axes]
    points = [each[np.lexsort(each.T)] for each in points]
    np.testing.assert_array_equal(points[0], points[1])
    assert not np.allclose(points[0], points[2])
    effects = [e for one in fitted.suspect_effects_ for e in one["effects"] if e != 0]
    ax = plots.effect_intervals(fitted, most=5)
    assert len(ax.get_yticks()) == min(5, len(effects))
    shares = plots.group_shares(fitted)
    widths = np.array([bar.get_width() for bar in shares.patches]).reshape(3, -1)
    np.testing.assert_allclose(widths.sum(axis=0), 1)
    np.testing.assert_allclose(widths[:, -1], fitted.mixture_.population_shares_)
    for drawn in (axes[0], ax, shares):
        draw(drawn)
    with pytest.raises(ValueError, match="no effects of suspects"):
        plots.effect_intervals(plain)


def test_before_and_after_show_the_same_rows(small):
    axes = plots.before_after(small)
    kmeans, suspect, clusters = ([c.get_offsets() for c in ax.collections] for ax in axes)
    titles = [ax.get_title(loc="left") for ax in axes]
    assert titles[0] == "by k-means cluster"
    assert titles[2] == "by cluster of this fit"
    # Without effects the rows stay in their places.
    places = [np.unique(np.vstack(each), axis=0) for each in (kmeans, suspect, clusters)]
    np.testing.assert_array_equal(places[0], places[1])
    np.testing.assert_array_equal(places[1], places[2])
    matched = np.asarray(small.projection.baseline_cluster) == small.projection.cluster
    assert matched.mean() == pytest.approx(1 - small.flow.moved)
    assert axes[0].get_xlabel() == f"component 1, {small.projection.variance[0]:.0%}"
    assert len(clusters) == len(set(small.projection.cluster))
    assert len(np.vstack(plots.before_after(small, most=50)[0].collections[0].get_offsets())) <= 50
    draw(axes[0])
    with pytest.raises(ValueError, match="no projection of a fit with suspects"):
        plots.before_after(dataclasses.replace(small.projection, value=()))
