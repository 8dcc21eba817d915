"""Configuration of Sphinx. `make docs` builds the pages into out/docs/html."""

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import reference
import unskew

reference.write(Path(__file__).parent)

project = "unskew"
author = "The unskew developers"
copyright = "The unskew developers"
release = version = unskew.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
    "mathml",
    "plain_docstrings",
    "pages",
]
exclude_patterns = ["_build", "_ext", "_templates"]
templates_path = ["_templates"]
default_role = "py:obj"

# Pages: Markdown. Headings are link targets, as they are in a repository browser.
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

# Reference: one page per public name.
autosummary_generate = True
autosummary_imported_members = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
suppress_warnings = [
    "config.cache",  # the configuration of the gallery holds functions
    "myst.header",  # notes of docs/results begin with headings of the third level
]

# Gallery: every script of examples/ is executed.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("unskew",),
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "abort_on_example_error": True,
    "plot_gallery": True,
    "min_reported_time": 5,
    "matplotlib_animations": False,
    "write_computation_times": False,  # its page loads scripts from the network
}
# Examples show what a user sees; a warning of an example is part of its output, without the path of
# this machine.
warnings.formatwarning = lambda message, category, *_: f"{category.__name__}: {message}\n"
warnings.filterwarnings("ignore", message=".*FigureCanvasAgg is non-interactive.*")

# HTML: nothing is loaded from the network, pages can be opened from a file.
html_theme = "pydata_sphinx_theme"
html_title = f"unskew {release}"
html_static_path = ["_static"]
html_css_files = ["unskew.css"]
html_show_sourcelink = False
html_math_renderer = "mathml"
html_copy_source = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
}
html_sidebars = {"index": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
