"""Pages of the documentation can be read in a repository browser."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted((DOCS / "guide").glob("*.md"))]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
OF_SPHINX = re.compile(r"^(```|:::)\{|\{[\w:]+\}`", re.MULTILINE)


def names(paths):
    return [str(path.relative_to(ROOT)) for path in paths]


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_links_exist_and_nothing_is_for_sphinx_alone(page):
    text = page.read_text(encoding="utf-8")
    assert OF_SPHINX.findall(text) == []
    targets = {target for target in LINK.findall(text) if "://" not in target}
    absent = {target for target in targets if not (page.parent / target).exists()}
    assert absent <= {"results/trust.md", "docs/results/trust.md"}  # a long run writes it


def test_readme_leads_to_every_page():
    """In three steps at most."""
    reached, new = set(), {ROOT / "README.md"}
    for _ in range(3):
        found = {
            (page.parent / target).resolve()
            for page in new
            for target in LINK.findall(page.read_text(encoding="utf-8"))
            if target.endswith(".md") and "://" not in target
        }
        new = {page for page in found - reached if page.exists()}
        reached |= new
    assert set(names(set(PAGES) - reached)) <= {"README.md"}


@pytest.mark.parametrize("name", ["patients.py", "fit.py", "fit.txt"])
def test_first_steps_show_the_scripts_and_their_output(name):
    """`make docs` runs the scripts and compares the output."""
    text = (DOCS / "start.md").read_text(encoding="utf-8")
    assert f"\n{(DOCS / 'start' / name).read_text(encoding='utf-8')}```\n" in text
