"""Reports: one file, the same content in three formats, user data as text."""

import json
import re
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest

from unskew import DCKM, DecorrelationWeights, SelectionMixture
from unskew.diagnostics import audit, compare, diagnose
from unskew.metrics import kish_size
from unskew.report import page_of, to_html, to_json, to_markdown, write_report
from unskew.report._page import pictures_of
from unskew.simulate import make_sites

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
pd = pytest.importorskip("pandas")

EVIL = "<script>alert(1)</script>"
ODD = '"quoted" & |piped| `ticked` *starred* ]]>'


def odd_table(n=240):
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, n)
    site = np.where(rng.random(n) < 0.7, kind, rng.integers(0, 3, n))
    return pd.DataFrame(
        {
            "site": np.array([EVIL, "b", "c"])[site],
            EVIL: rng.normal(kind + site, 1),
            ODD: rng.normal(kind - site, 1),
            "<img src=x onerror=alert(2)>": rng.random(n) < 0.3 + 0.2 * kind,
            "seen": pd.Timestamp("2021-03-01") + pd.to_timedelta(100 * site + kind, unit="D"),
        },
        index=[f"<i>{i}</i>" for i in range(n)],
    )


@pytest.fixture(scope="module")
def kinds():
    """name -> each kind of result there is."""
    table = odd_table()
    model = DCKM(3, suspects="site", n_init=1, random_state=0).fit(table)
    weights = DecorrelationWeights(suspects="site").fit(table)
    return {
        "fit": diagnose(model, table),
        "alone": diagnose(model, table, against=False),
        "weights": diagnose(weights, table),
        "audit": audit(table, suspects="site"),
        "comparison": compare(
            table, 3, suspects=["site", EVIL], n_init=1, tol=0.01, random_state=0
        ),
    }


@pytest.fixture(scope="module")
def pages(kinds):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        return {name: to_html(found) for name, found in kinds.items()}


class Page(HTMLParser):
    """Tags with their attributes, checks that they nest, and the text."""

    EMPTY = ("meta", "link", "input", "br", "img")

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.tags, self.open, self.text, self.ids = [], [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.ids += [value for name, value in attributes if name == "id"]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.ids += [value for name, value in attributes if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def policy(html):
    return next(a["content"] for tag, a in Page(html).tags if a.get("http-equiv"))


ALL = ["fit", "alone", "weights", "audit", "comparison"]


@pytest.mark.parametrize("name", ALL)
def test_html_is_well_formed_and_its_ids_are_unique(name, pages):
    page = Page(pages[name])
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    pointed = set(re.findall(r'(?:href="#|url\(#)([^")]+)', pages[name]))
    pointed |= {one for _, a in page.tags for one in (a.get("aria-labelledby") or "").split()}
    assert pointed <= set(page.ids)


@pytest.mark.parametrize("name", ALL)
def test_html_asks_nobody_for_anything(name, pages):
    assert "http" not in pages[name].replace("http-equiv", "")
    for tag, attributes in Page(pages[name]).tags:
        for key in ("src", "href", "xlink:href", "action", "srcset"):
            value = attributes.get(key)
            assert value is None or value.startswith(("#", "data:")), (tag, value)
    assert "@import" not in pages[name]
    assert policy(pages[name]).startswith("default-src 'none'")


@pytest.mark.parametrize("name", ALL)
def test_user_data_are_text(name, pages):
    tags = [tag for tag, _ in Page(pages[name]).tags]
    assert tags.count("script") == 1
    assert "img" not in tags
    assert "i" not in tags
    assert EVIL not in pages[name]
    assert "&lt;script&gt;alert(1)" in pages[name]


def test_the_only_script_is_the_one_the_policy_names(pages):
    import base64
    import hashlib

    script = re.search(r"<script>(.*)</script>", pages["fit"], re.S).group(1)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy(pages["fit"])


@pytest.mark.parametrize("name", ALL)
def test_the_page_opens_with_the_verdict(name, pages, kinds):
    page = page_of(kinds[name])
    text = " ".join("".join(Page(pages[name]).text).split())
    sentence = " ".join(page.sentence.split())
    assert sentence in text
    first_table = text.find(page.sections[-1].title)
    assert text.find(sentence) < first_table
    assert "<h1>" in pages[name]


@pytest.mark.parametrize("name", ALL)
def test_every_picture_has_a_title_a_description_and_a_caption(name, pages, kinds):
    pictures = pictures_of(page_of(kinds[name]))
    assert pages[name].count('role="img"') == len(pictures)
    for picture in pictures:
        assert f'<title id="{picture.key}-title">' in pages[name]
        assert f'<desc id="{picture.key}-desc">' in pages[name]
        assert picture.description
        assert picture.caption


@pytest.mark.parametrize("name", ALL)
def test_all_formats_say_the_same(name, kinds, pages):
    page = page_of(kinds[name])
    markdown, content = to_markdown(kinds[name]), json.loads(to_json(kinds[name]))
    html = "".join(Page(pages[name]).text)
    for section in page.sections:
        assert section.title in html
        assert f"## {section.title}" in markdown
        for table in section.tables:
            assert table.title in html
            assert f"### {table.title}" in markdown
    assert content["settings"]["versions"][0][0] == "unskew"
    assert markdown.count("\n| ") == sum(
        1 + len(t.rows) for s in page.sections for t in s.tables
    ) + len(page.tiles) + 1 + markdown.split("## How to reproduce this")[1].count("\n| ")


def test_markdown_shows_names_as_text(kinds):
    text = to_markdown(kinds["fit"])
    assert EVIL not in text
    assert r"\<script\>alert(1)\</script\>" in text
    table = text.split("### Differences by column")[1].split("###")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")]
    widths = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}
    assert len(widths) == 1


def test_json_is_the_dataclass(kinds):
    content = json.loads(to_json(kinds["fit"]))
    assert content["kind"] == "diagnostics"
    assert content["verdict"]["word"] == kinds["fit"].verdict.word
    assert content["features"][0]["feature"] == kinds["fit"].features[0].feature


def test_the_call_can_be_typed_again(kinds):
    call = kinds["fit"].settings.call
    assert call == "DCKM(n_clusters=3, n_init=1, random_state=0, suspects='site').fit(X)"
    fitted = eval(call, {"DCKM": DCKM, "X": odd_table()})
    assert fitted.n_clusters == 3


def test_dates_are_shown_as_dates(pages):
    assert re.search(r'data-v="18\d\d\d\.[^"]*">2021-\d\d-\d\d<', pages["fit"])


@pytest.fixture(scope="module")
def apart():
    """A mixture in which the rows of one site are the rows of one group."""
    data = make_sites(300, n_clusters=2, n_sites=2, n_features=3, separation=6.0, random_state=0)
    group = data.y
    site = np.where(group == 0, "a", np.where(np.arange(300) % 2, "b", "c"))
    table = pd.DataFrame(data.X[:, data.core], columns=list("xyz")).assign(site=site)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SelectionMixture(2, suspects="site", random_state=0).fit(table)
        return diagnose(model, table)


def test_the_front_names_suspects_form_and_overlap(apart):
    assert apart.form.startswith("columns ")
    assert re.search(r"\(lowest BIC of \d+ forms\)$", apart.form)
    page = page_of(apart)
    assert f"The model: {apart.form}." in page.done
    gloss = "columns that may reflect how the data were collected, not their subject"
    assert f"Suspects: site ({gloss})." in page.done
    unclear = [each.sentence for each in apart.overlap if each.sentence]
    assert unclear
    for render in (to_html, to_markdown):
        text = re.sub(r"&#3[49];|\\", "", render(apart)).replace("'", "")
        assert text.count(unclear[0].replace("'", "")) == 1
        assert text.index(unclear[0].replace("'", "")) < text.index(page.done[:30])


@pytest.mark.parametrize("name", ["audit", "comparison"])
def test_audit_and_comparison_name_the_suspects(name, kinds):
    words = "Suspects: site" if name == "audit" else f"Suspects: site, {EVIL}"
    assert page_of(kinds[name]).done.startswith(words)
    assert kinds[name].settings.suspects == kinds[name].suspects


@pytest.mark.parametrize("name", ["fit", "apart"])
def test_the_front_has_three_numbers_and_one_baseline(name, kinds, apart):
    d = apart if name == "apart" else kinds["fit"]
    page = page_of(d)
    tiles = {tile.label: tile for tile in page.tiles}
    assert list(tiles) == ["Mean difference", "Effective sample size", "Rows in another cluster"]
    assert "k-means without the suspects" in tiles["Rows in another cluster"].note
    assert "Coloured by cluster of k-means without the suspects, by " in page.front.caption


def test_the_same_numbers_make_the_same_page(kinds, pages):
    assert to_html(kinds["fit"]) == pages["fit"]


@pytest.mark.parametrize("suffix", [".html", ".md", ".json"])
def test_the_suffix_says_the_format(suffix, kinds, tmp_path):
    path = tmp_path / f"report{suffix}"
    assert write_report(kinds["audit"], path) == path
    start = {".html": "<!doctype html>", ".md": "# ", ".json": "{"}[suffix]
    assert path.read_text(encoding="utf-8").startswith(start)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_other_suffixes_and_other_things_are_refused(kinds, tmp_path):
    with pytest.raises(ValueError, match=r"ends in '.pdf'; it should end in"):
        write_report(kinds["fit"], tmp_path / "report.pdf")
    with pytest.raises(TypeError, match="found should be a result of diagnose, audit or compare"):
        to_html({})
    assert not list(tmp_path.iterdir())


def test_a_hundred_columns_and_many_rows_stay_far_under_two_megabytes():
    # Beyond 2000 rows nothing in the page grows with them: with 100,000 it has the same size.
    rng = np.random.default_rng(0)
    n = 3000
    site = rng.integers(0, 2, n)
    X = rng.random((n, 100)) + 0.3 * site[:, None] * (np.arange(100) % 3 == 0)
    X[:, 0] = site
    table = pd.DataFrame(X, columns=[f"a rather long name of column {k}" for k in range(100)])
    model = DCKM(8, suspects=table.columns[0], n_init=1, max_iter=1, init="random", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table)
    html = to_html(diagnose(model, table))
    assert len(html.encode()) < 1_000_000


@pytest.fixture(scope="module")
def designed():
    """A mixture with design weights, some of which are 0."""
    data = make_sites(300, n_clusters=2, n_sites=3, n_features=3, separation=4.0, random_state=0)
    a = np.random.default_rng(0).lognormal(sigma=1.0, size=300)
    a[:7] = 0
    table = pd.DataFrame(data.X[:, data.core], columns=list("xyz")).assign(
        site=data.site.astype(str)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SelectionMixture(2, suspects="site", random_state=0).fit(table, sample_weight=a)
        return diagnose(model, table, a), a


def test_the_effective_sample_size_has_one_basis(designed):
    d, a = designed
    words = (
        f"{d.weights.kish_size:.0f} of 293 rows ({d.weights.kish_size / 293:.0%}); "
        f"{kish_size(a):.0f} under the design weights alone"
    )
    text = to_markdown(d).replace("\\", "")
    assert f"The effective sample size (Kish) is {words}." in text
    tile = next(t for t in page_of(d).tiles if t.label == "Effective sample size")
    assert f"{tile.value} {tile.note}" == words
    assert f"{d.weights.effective_size:.0%}" not in text


@pytest.mark.parametrize("name", ["fit", "weights", "designed"])
def test_the_mean_difference_is_the_mean_over_the_pairs_of_the_features(name, kinds, designed):
    d = designed[0] if name == "designed" else kinds[name]
    pairs = [f.n_pairs for f in d.features]
    for when in ("before", "after"):
        mean = np.average([getattr(f, f"typical_{when}") for f in d.features], weights=pairs)
        assert mean == pytest.approx(getattr(d.evidence, f"typical_{when}"))
    assert f"The mean over all {sum(pairs):,} pairs is the mean difference" in to_markdown(d)


def test_what_was_removed_is_told_from_what_is_modelled():
    rng = np.random.default_rng(0)
    group, site = rng.integers(0, 2, 600), rng.integers(0, 2, 600)
    table = pd.DataFrame({c: rng.normal(4 * group + 0.8 * site) for c in "xyz"})
    table["kind"] = np.where(rng.random(600) < 0.3 + 0.4 * site, "a", "b")
    table["site"] = np.array(["north", "south"])[site]
    model = SelectionMixture(2, suspects="site", effects="shift", random_state=0).fit(table)
    d = diagnose(model, table, against=False)
    done = page_of(d).done
    assert "The shifts of the numeric columns by “site” were removed; effects on the prob" in done
    assert "but these columns are unchanged. The mean difference that remains is 0." in done
    assert d.projection.before_x
    # Effects on categories only: the columns, and the places of the rows, do not change.
    some = pd.DataFrame(
        {c: np.where(rng.random(600) < 0.1 + 0.8 * group, "p", "q") for c in "stuv"}
    )
    some = some.assign(kind=table["kind"], site=table["site"])
    d = diagnose(model.fit(some), some, against=False)
    assert {one.unit for one in d.effects} == {"log-odds"}
    assert (
        "on the probabilities of categories; the columns themselves are unchanged."
        in to_markdown(d)
    )
    assert not d.projection.before_x
    plain = SelectionMixture(2, suspects="site", effects="none", random_state=0).fit(table)
    done = page_of(diagnose(plain, table, against=False)).done
    assert "No column was changed." in done


def test_rows_of_weight_zero_are_mentioned_once(designed):
    text = to_markdown(designed[0])
    assert page_of(designed[0]).subject.startswith("293 rows, ")
    assert text.count("293 of positive weight (7 rows of weight 0 are labelled only)") == 1
    assert "300" not in text.split("## How to reproduce")[0].split("### ")[0]


@pytest.mark.parametrize("name", ["fit", "designed", "alone"])
def test_the_front_says_how_many_rows_each_panel_has(name, kinds, designed):
    d = designed[0] if name == "designed" else kinds[name]
    page = page_of(d)
    panels = page.front.draw().axes
    drawn = {sum(len(c.get_offsets()) for c in ax.collections) for ax in panels}
    assert len(drawn) == 1
    assert f"Each panel has the same {drawn.pop()} rows" in page.front.caption
    assert len(panels) == 1 + 1 + bool(d.projection.before_x) + (d.flow is not None)
    assert not any("projection" in note for note in page.notes)


def test_rows_that_are_left_out_of_the_picture_are_told(designed, monkeypatch):
    from unskew.report import _fit_page

    monkeypatch.setattr(_fit_page, "MAX_DRAWN", 50)
    front = page_of(designed[0]).front
    assert "the same 50 of 293 rows, drawn at random" in front.caption
    assert sum(len(c.get_offsets()) for c in front.draw().axes[0].collections) == 50


def test_each_agreement_with_k_means_is_named(designed):
    text = to_markdown(designed[0])
    found = [line for line in text.splitlines() if "greement" in line and "k-means" in line]
    for line in found:
        assert "in the sample" in line or "ARI" in line
    assert len(found) <= 3


def test_the_columns_of_the_fit_are_listed(designed, kinds):
    assert "| names | x, y, z, site |" in to_markdown(designed[0])


def test_numbers_of_the_weights_name_their_basis(designed, kinds):
    pictures = {p.key: p.caption for s in page_of(designed[0]).sections for p in s.pictures}
    words = pictures["distribution"]
    assert words.startswith("Learned weights, mean 1: from ")
    assert "Learned weights times design weights: the 1% of the rows" in words
    plain = {p.key: p.caption for s in page_of(kinds["fit"]).sections for p in s.pictures}
    assert "design weights" not in plain["distribution"]


def test_known_shares_and_those_reached_are_a_table(rng):
    table = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "c"])
    table["age"] = rng.choice(["old", "young"], size=300, p=[0.2, 0.8])
    table["mode"] = rng.choice(["web", "phone"], size=300)
    known = {"age": {"young": 0.6, "old": 0.4}}
    model = DCKM(2, suspects="mode", margins=known, n_init=2, random_state=0).fit(table)
    found = diagnose(model, table)
    shares = found.to_frame("margins", "pandas").set_index("value")
    assert shares["known"].to_dict() == known["age"]
    np.testing.assert_allclose(shares["reached"], shares["known"], atol=1e-9)
    assert shares.loc["old", "design"] == pytest.approx((table["age"] == "old").mean())
    (one,) = [t for s in page_of(found).sections for t in s.tables if t.key == "margins"]
    assert [row[:3] for row in one.rows] == [("age", "young", 0.6), ("age", "old", 0.4)]
    model = DCKM(2, suspects="mode", n_init=2, random_state=0).fit(table)
    assert diagnose(model, table).margins == ()
