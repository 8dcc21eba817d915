"""The report in a real browser."""

import shutil
import warnings

import pytest

from unskew import DCKM
from unskew.diagnostics import audit, compare, diagnose
from unskew.report import write_report
from unskew.simulate import make_site_footprint

sync_api = pytest.importorskip("playwright.sync_api")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
pd = pytest.importorskip("pandas")

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason=f"none of {', '.join(NAMES)} is installed")

EVIL = "<script>document.title = 'taken'</script>"


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """name -> path of a report of each kind; the fit has 30 columns, one with an evil name."""
    folder = tmp_path_factory.mktemp("reports")
    data = make_site_footprint(300, n_core=14, n_footprint=12, random_state=0)
    table = pd.DataFrame(data.X.astype(float), columns=data.feature_names)
    table = table.rename(columns={"core_0_00": EVIL, "core_0_01": "a_very_long_name_" * 8})
    suspects = list(table.columns[data.suspects])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DCKM(4, suspects=suspects, n_init=1, random_state=0).fit(table)
        found = {
            "fit": diagnose(model, table),
            "audit": audit(table),
            "comparison": compare(table, 4, suspects=suspects, n_init=1, random_state=0),
        }
    return {name: write_report(one, folder / f"{name}.html") for name, one in found.items()}


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, reports):
    """Open a report; whatever the console says or the network is asked for is kept."""
    opened = []

    def go(name="fit", width=1200, **settings):
        context = browser.new_context(viewport={"width": width, "height": 900}, **settings)
        page = context.new_page()
        page.said, page.asked = [], []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(reports[name].as_uri())
        opened.append(context)
        return page

    yield go
    for context in opened:
        context.close()


def column(page, table, number):
    cells = page.locator(
        f"[data-table]:has(#{table}-table) tbody tr:visible td:nth-child({number})"
    )
    return cells.all_inner_texts()


@pytest.mark.parametrize("name", ["fit", "audit", "comparison"])
def test_it_opens_silently_and_asks_nobody(visit, reports, name):
    page = visit(name)
    page.wait_for_load_state("networkidle")
    assert page.said == []
    others = [url for url in page.asked if not url.startswith("data:")]
    assert others == [reports[name].as_uri()]


def test_names_from_the_data_do_nothing(visit):
    page = visit()
    assert "taken" not in page.title()
    assert page.get_by_text(EVIL, exact=True).first.is_visible()


def test_tables_sort_by_click_both_ways(visit):
    page = visit()
    head = page.locator("[data-table]:has(#features-table) th", has_text="Largest before")
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    values = [float(v) for v in column(page, "features", 2)]
    assert values == sorted(values, reverse=True)
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    values = [float(v) for v in column(page, "features", 2)]
    assert values == sorted(values)


def test_tables_sort_by_keyboard_and_one_heading_at_a_time(visit):
    page = visit()
    table = page.locator("[data-table]:has(#features-table)")
    table.get_by_role("button", name="Column").focus()
    page.keyboard.press("Enter")
    names = column(page, "features", 1)
    assert table.locator("th[aria-sort]").count() == 1
    footprints = [name for name in names if name.startswith("footprint")]
    assert footprints == sorted(footprints)
    page.keyboard.press("Space")
    assert column(page, "features", 1) == names[::-1]


def test_empty_cells_stay_at_the_end(visit):
    page = visit()
    # The first feature has no mean difference, as a column without pairs would.
    page.evaluate(
        """() => {
            const card = [...document.querySelectorAll("[data-table]")].find(
                (one) => one.querySelector("#features-table"));
            const cell = card.querySelector("tbody tr td:nth-child(4)");
            cell.textContent = "";
            [...cell.attributes].filter((a) => a.name.startsWith("data-")).forEach(
                (a) => cell.setAttribute(a.name, ""));
        }"""
    )
    head = page.locator("[data-table]:has(#features-table) th", has_text="Mean before")
    for _ in range(2):
        head.get_by_role("button").click()
        values = column(page, "features", 4)
        assert values[-1] == ""
        assert all(values[:-1])


def test_tables_filter_and_say_how_many_are_left(visit):
    page = visit()
    table = page.locator("[data-table]:has(#features-table)")
    total = table.locator("tbody tr").count()
    field = table.get_by_role("searchbox")
    field.fill("FOOTPRINT_1")
    left = table.locator("tbody tr:visible").all_inner_texts()
    assert 0 < len(left) < total
    assert all("footprint_1" in row for row in left)
    assert table.get_by_role("status").inner_text() == f"{len(left)} of {total} rows"
    field.fill("")
    assert table.get_by_role("status").inner_text() == f"{total} rows"
    field.fill("no such thing")
    assert table.get_by_role("status").inner_text() == f"0 of {total} rows"


def light(page, what, where="body"):
    """Brightness, 0 to 255, of a computed colour."""
    colour = page.locator(where).first.evaluate(f"e => getComputedStyle(e).{what}")
    red, green, blue = (float(v) for v in colour[colour.index("(") + 1 : -1].split(",")[:3])
    return 0.3 * red + 0.6 * green + 0.1 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_are_readable(visit, scheme):
    page = visit(color_scheme=scheme)
    page_back, card = light(page, "backgroundColor"), light(page, "backgroundColor", "figure.card")
    assert (page_back < 60 and card < 60) if scheme == "dark" else (page_back > 220 and card > 220)
    for what, where in (
        ("color", "h1"), ("color", ".lead"), ("color", "td"), ("fill", "#weights svg text"),
    ):  # fmt: skip
        assert abs(light(page, what, where) - card) > 90


@pytest.mark.parametrize("name", ["fit", "audit", "comparison"])
def test_a_narrow_window_does_not_scroll_sideways(visit, name):
    page = visit(name, width=768)
    for width in (768, 360, 320):
        page.set_viewport_size({"width": width, "height": 900})
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width
        boxes = page.locator("figure svg, h1, .tile, .search input").evaluate_all(
            "all => all.map(e => e.getBoundingClientRect().right)"
        )
        assert max(boxes) <= width
        size = page.locator("h1").evaluate("e => parseFloat(getComputedStyle(e).fontSize)")
        assert size >= 20


def test_the_letters_in_pictures_stay_legible_in_a_narrow_window(visit):
    page = visit(width=360)
    heights = page.locator("#weights svg text").evaluate_all(
        """all => all.map(e => {
            const m = e.getScreenCTM();
            return parseFloat(getComputedStyle(e).fontSize) * Math.hypot(m.a, m.b);
        })"""
    )
    assert min(heights) > 6.5


def test_everything_is_reached_by_keyboard(visit):
    page = visit()
    seen = set()
    for _ in range(400):
        page.keyboard.press("Tab")
        tag = page.evaluate("document.activeElement.tagName")
        seen.add(tag)
        if tag == "BODY":
            break
    assert {"A", "BUTTON", "INPUT"} <= seen


def test_pictures_have_names_for_those_who_cannot_see(visit):
    page = visit()
    for svg in page.locator("figure svg").all():
        key = svg.get_attribute("aria-labelledby").split()
        assert all(page.locator(f"#{one}").text_content().strip() for one in key)
    assert page.get_by_role("heading", level=1).count() == 1


def test_without_scripts_the_tables_are_complete(visit):
    page = visit(java_script_enabled=False)
    rows = page.locator("[data-table]:has(#features-table) tbody tr")
    assert rows.count() == 26
    assert page.locator(".search:visible").count() == 0


def test_print_shows_whole_tables_on_white(visit):
    page = visit(color_scheme="dark")
    page.emulate_media(media="print")
    assert light(page, "backgroundColor") == pytest.approx(255)
    scroll = page.locator("[data-table]:has(#features-table) .scroll")
    assert scroll.evaluate("e => e.scrollHeight <= e.clientHeight + 1")
    assert page.locator("nav:visible, .search:visible").count() == 0
