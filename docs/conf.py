"""The documentation site. `make docs` builds it, and `make test` does so with warnings as errors.

Pages are the Markdown files of this folder. Two kinds are made at build time: the API reference from docstrings
(make_api_reference.py), and the outputs of the tutorials, which are run (myst-nb).
"""

import os
import re
import runpy
import sys
from functools import partialmethod
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # for cells that run otpe

NEEDED = ("myst_nb", "sphinx_book_theme", "latex2mathml")
if missing := [name for name in NEEDED if find_spec(name) is None]:
    sys.exit(f"The documentation needs {', '.join(missing)}, not installed here. Use: pip install '.[docs]'")

from nbclient import NotebookClient  # noqa: E402

import otpe  # noqa: E402

# Cells that run a command give their output in pieces. nbclient joins them; myst-nb would put newlines between them.
NotebookClient.__init__ = partialmethod(NotebookClient.__init__, coalesce_streams=True)

project = "otpe"
author = "the otpe authors"
project_copyright = "the otpe authors"
version = release = otpe.__version__

extensions = ["myst_nb", "mathml"]
smartquotes_action = "qe"  # no dashes: options begin with two hyphens
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
exclude_patterns = ["_build", "results/paper", "figures"]
root_doc = "index"
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types in signatures are text, not links
suppress_warnings = ["myst.header", "mystnb.unknown_mime_type"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 4
myst_links_external_new_tab = True
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_timeout = 180
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries = False

html_theme = "sphinx_book_theme"
html_title = "otpe: online training of spiking neural networks"
html_static_path = ["_site"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "article_header_start": ["toggle-primary-sidebar.html"],
    "navbar_persistent": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}


OUTSIDE = re.compile(
    r"\[([^\]]+)\]\((?:\.\./)*(?:src|tests|benchmarks|examples|stress|docs/results|results/paper)/?[^)]*\)"
)


def prepare(app):
    """Write the pages that are made from code."""
    runpy.run_path(str(HERE / "make_api_reference.py"))["write"](HERE / "reference" / "api")
    changes = (HERE.parent / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](")
    (HERE / "changelog.md").write_text(changes, encoding="utf-8")


def unlink_sources(app, page, source):
    """Links into the source tree have a target on a disk with the repository, but none in the site: keep their text."""
    source[0] = OUTSIDE.sub(r"\1", source[0])


def setup(app):
    app.connect("builder-inited", prepare)
    app.connect("source-read", unlink_sources)
