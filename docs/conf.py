"""The site: `make docs` builds it without a warning, and it opens from the disk, without a network."""

import subprocess
import sys
from pathlib import Path

from docutils import nodes

from mercer._core.version import VERSION

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "mercer"
author = "The mercer developers"
copyright = author  # noqa: A001  # Sphinx's own name
version = release = VERSION

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinx_click",
    "sphinx_copybutton",
    "plots_in_markdown",
    "formulas",
    "other_projects",
    "notebooks",
    "search_texts",
]
exclude_patterns = ["_build", "changes", "**sg_execution_times*"]
templates_path = ["_templates"]
nitpicky = True
smartquotes = False  # --scale and "rbf" are to be typed as they stand
default_role = "py:obj"
# Backticks in docstrings are code, and a link where the site has the name: parameters have none.
nitpick_ignore_regex = [("py:obj", ".*")]

# ── pages ─────────────────────────────────────────────────────────────────────
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# ── the reference ─────────────────────────────────────────────────────────────
autosummary_generate = True
toc_object_entries_show_parents = "hide"  # fit(), not KernelPCA.fit()
autodoc_typehints = "none"  # the docstrings have the types, in words
numpydoc_show_class_members = False  # the template of a class lists them, with their docstrings
# What misleads a reader or breaks the page. Not asked for: sections for every method (PR01, RT01, SA01, EX01,
# ES01), since a sentence and the signature often say it all; capitals (SS02), since k and K are two things.
numpydoc_validation_checks = {
    "GL03",  # blank lines in pairs
    "GL06",  # an unknown section
    "GL07",  # sections in the wrong order
    "GL09",  # a deprecation in the wrong place
    "GL10",  # a directive that is not one
    "PR02",  # a parameter that the signature does not have
    "PR03",  # parameters in another order than in the signature
    "PR05",  # a type that ends with a period
    "PR06",  # "integer" for int, "string" for str
    "PR10",  # no space before the colon
    "RT04",  # a return value that begins in lower case
    "SS03",  # a summary without its period
    "SS04",  # a summary with spaces before it
}
numpydoc_validation_exclude = {r"\.denoising$"}  # an instance: its signature is that of its call

# ── pictures ──────────────────────────────────────────────────────────────────
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("png", 120)]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "capture_repr": (),  # pictures and what is printed, not the last value of a cell
    "show_memory": False,
    "min_reported_time": 1_000_000,  # seconds of one machine say nothing
    "download_all_examples": False,
    "remove_config_comments": True,
    "plot_gallery": "True",
    "doc_module": ("mercer",),
    "backreferences_dir": "reference/backreferences",
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
}

# ── the look, all of it local ─────────────────────────────────────────────────
html_theme = "pydata_sphinx_theme"
html_title = "mercer"
html_static_path = ["_static"]
html_css_files = ["mercer.css"]
html_js_files = ["accessible.js"]
html_show_sourcelink = False
html_copy_source = False
# A page opened from the disk may not fetch another one; search_texts brings the excerpts.
html_show_search_summary = False
html_context = {"default_mode": "auto"}  # light or dark, as the reader has it
html_sidebars = {"ten-minutes": [], "changelog": []}  # pages without others below them
html_theme_options = {
    "navbar_align": "left",
    "show_toc_level": 3,
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "header_links_before_dropdown": 7,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def skip_others(
    _app: object, _what: str, _name: str, obj: object, skip: bool, _opts: object
) -> bool | None:
    """What scikit-learn and Python bring along is documented there."""
    home = getattr(getattr(obj, "fget", obj), "__module__", None)
    return True if skip or not str(home or "mercer").startswith("mercer") else None


def without_unset(_app: object, _ctx: object, lines: list[str]) -> None:
    """An option that has no default shows none; sphinx-click writes the mark that Click has for it."""
    lines[:] = [line for line in lines if "Sentinel.UNSET" not in line]


def write_changes(_app: object) -> None:
    """What has changed since the last release, from the fragments in docs/changes."""
    draft = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", VERSION]
    text = subprocess.run(
        [*draft, "--date", "unreleased"],
        cwd=HERE.parent,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    out = HERE / "_build" / "changes.md"
    out.parent.mkdir(exist_ok=True)
    out.write_text(text.replace("](../", "]("))  # the fragments are one folder below the page


def mark_sentences(_app: object, doctree: nodes.document) -> None:
    """Mark output with a line that fits no screen: it is words, not a table, and its lines may break."""
    for block in doctree.findall(nodes.literal_block):
        if block.get("language") == "text" and max(map(len, block.astext().split("\n"))) > 100:
            block["classes"].append("sentences")


def setup(app: object) -> None:
    """Sphinx calls this once."""
    app.connect("doctree-read", mark_sentences)
    app.connect("builder-inited", write_changes)
    app.connect("autodoc-skip-member", skip_others)
    app.connect("sphinx-click-process-options", without_unset)
