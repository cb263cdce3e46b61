"""The site: `make docs` builds it, offline, into docs/_build/html."""

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
os.environ.setdefault("MPLBACKEND", "Agg")

from numpydoc.xref import DEFAULT_LINKS

import dynpart

project = "dynpart"
author = "The dynpart developers"
copyright = author
version = release = dynpart.__version__


def public_types():
    """Paths of the classes of the reference by name; those that a model's methods return first."""
    found = {}
    for page in sorted(
        Path(__file__).parent.glob("api/*.md"), key=lambda page: page.stem != "model"
    ):
        for line in page.read_text(encoding="utf-8").splitlines():
            if line.startswith(".. currentmodule::"):
                module = line.split()[-1]
            elif re.fullmatch("   [A-Z]\\w+", line):
                found.setdefault(line.strip(), f"{module}.{line.strip()}")
    return found


extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "commands",
]
exclude_patterns = ["_build", "gallery/*.ipynb", "**sg_execution_times.rst"]
templates_path = ["_templates"]

# Markdown
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# The reference. A link to something that is not part of it is an error.
nitpicky = True
autosummary_generate = True
autodoc_member_order = "groupwise"
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_attributes_as_param_list = True
numpydoc_xref_param_type = True
numpydoc_xref_aliases = public_types()
numpydoc_xref_ignore = "all"  # every other word of a type
DEFAULT_LINKS.clear()  # links of built-in types to other sites

# The gallery. What needs torch is shown without output where torch is not installed.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("dynpart",),
    "filename_pattern": r"/plot_" if find_spec("torch") else r"/plot_(?!\d+_gpu)",
    "image_scrapers": ("figures",),
    "default_thumb_file": str(Path(__file__).parent / "_static" / "logo.svg"),
    "reset_modules": (),
    "parallel": os.cpu_count() or 1,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "within_subsection_order": "FileNameSortKey",
    "copyfile_regex": r"",
}

# The look
html_theme = "pydata_sphinx_theme"
html_title = "dynpart"
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # summaries are fetched, which a page on disk must not do
html_theme_options = {
    "logo": {"text": "dynpart"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "show_toc_level": 2,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
html_sidebars = {"changelog": [], "index": [], "start": [], "theory": []}


def from_scikit_learn(app, what, name, member, skip, options):
    """Leave out the methods of scikit-learn's base classes: its own site explains them."""
    module = getattr(member, "__module__", None) or ""
    return True if module.startswith("sklearn.") else None


def of_no_protocol(app, what, name, item, options, signature, returns):
    """Leave out the signature of a protocol, which is made up: nobody calls it."""
    return ("", None) if getattr(item, "_is_protocol", False) else None


def setup(app):
    app.connect("autodoc-skip-member", from_scikit_learn)
    app.connect("autodoc-process-signature", of_no_protocol)
