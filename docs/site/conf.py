"""How Sphinx makes the documentation site; docs/site/build.py prepares what it reads."""

from ccarena import __version__

project = "ccarena"
release = __version__
copyright = ""
html_show_copyright = html_show_sphinx = html_copy_source = False

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "run_here"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
# A word in backticks is code in docstrings, as it is everywhere else.
default_role = "code"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
nitpicky = False
highlight_language = "none"
# Two pages begin a generated part with its own level of headings.
suppress_warnings = ["misc.highlighting_failure", "myst.header"]

html_theme = "furo"
html_static_path = ["static"]
# Summaries of what a search finds would be fetched, which a page that is a file may not.
html_show_search_summary = False
html_title = "ccarena"
# Nothing is fetched from elsewhere: the theme brings its styles and takes the system's fonts.
html_theme_options = {"navigation_with_keys": True}
