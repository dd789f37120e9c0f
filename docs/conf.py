"""The documentation site: ``make docs``.

The source directory is the root of the repository, so that pages link to each other by the same
relative paths on the site and where the repository is hosted.  Pages are plain Markdown.  In the
navigation a page of `INDEXES` is above the pages that its lists and tables link to.  In the
reference a comment, ``<!-- autodoc: NAME -->``, stands for the docstring of an object.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from configparser import ConfigParser
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

from docutils import nodes

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("PYTENSOR_FLAGS", "cxx=")  # no page needs a C compiler

from pytensor_jaxlink import JAXLinker  # noqa: E402 -- the path is set above

_setup = ConfigParser()
_setup.read(ROOT / "setup.cfg")

project = "pytensor_jaxlink"
author = _setup["metadata"]["author"]
project_copyright = author
REPOSITORY = _setup["metadata"]["url"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
]
root_doc = "docs/README"
source_suffix = {".md": "markdown"}
include_patterns = [
    "docs/**.md",
    ".github/[A-Z]*.md",
    "CHANGELOG.md",
    "pytensor_jaxlink/catalogue/**.md",
]
exclude_patterns = [
    ".git",
    ".venv*",
    "build",
    "tests",
    ".github/PULL_REQUEST_TEMPLATE.md",
    "docs/changelog.d/*",
]

myst_heading_anchors = 3
nitpicky = True
# A single backtick in a docstring is a name: a link where the name is known, else code.
default_role = "py:obj"
nitpick_ignore_regex = [
    ("py:obj", ".*"),
    ("py:class", r"[\w ]+"),  # a type in words: "shared variables"
    ("py:class", r"pytensor_jaxlink\..*"),  # the annotation of a field, of an internal class
    ("py:exc", "MissingInputError"),  # PyTensor documents its modules, and not this one
]
suppress_warnings = ["config.cache"]  # the functions in this file are not pickled

autodoc_typehints = "none"  # the NumPy docstrings say the types
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_preprocess_types = False

_INVENTORIES = ROOT / "docs" / "_inventories"
intersphinx_mapping = {
    name: (url, str(_INVENTORIES / f"{name}.inv"))
    for name, url in (
        ("python", "https://docs.python.org/3/"),
        ("numpy", "https://numpy.org/doc/stable/"),
        ("jax", "https://docs.jax.dev/en/latest/"),
        ("pytensor", "https://pytensor.readthedocs.io/en/latest/"),
        ("pymc", "https://www.pymc.io/projects/docs/en/stable/"),
    )
}

html_theme = "pydata_sphinx_theme"
html_title = "pytensor_jaxlink"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"docs/README": []}
html_theme_options = {
    "icon_links": [{"name": "Repository", "url": REPOSITORY, "icon": "fa-solid fa-code-branch"}],
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "footer_end": [],
}

INDEXES = (
    "docs/README",
    "docs/start",
    "docs/guides",
    "docs/gallery/README",
    "docs/reference/README",
    "docs/errors",
    "docs/how_it_works",
    "docs/decisions/README",
    ".github/CONTRIBUTING",
)
"""The pages that stand for a section of the site."""

_IF_THERE = {"errors.md": "Errors"}
_SENTENCE = 40  # characters: a cell of a table that is longer is read, not compared

_LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)]*)?\))")
_ENTRY = re.compile(r"^\s*(?:- |\d+\. |\| )\[([^\]]*)\]\(([^)#\s]+\.md)\)", re.MULTILINE)
_AUTODOC = re.compile(r"^<!-- autodoc: ([\w.]+) -->$", re.MULTILINE)


def _read(app: Any, name: str, text: list[str]) -> None:
    """Replace the comments of a page, and links to files that are no pages of the site."""
    page = text[0]
    folder = PurePosixPath(name).parent
    page = _LINK.sub(lambda found: found[1] + _target(app, folder, found[2]) + found[3], page)
    if name in INDEXES:
        titles = {path: title for title, path in _ENTRY.findall(page) if "://" not in path}
        entries = [*titles]
        if name == root_doc:  # short titles for the head of each page
            there = {path: _IF_THERE[path] for path in _IF_THERE if (ROOT / folder / path).exists()}
            entries = [f"{title} <{path}>" for path, title in (titles | there).items()]
        page += "\n\n```{{toctree}}\n:hidden:\n\n{}\n```\n".format("\n".join(entries))
    text[0] = _AUTODOC.sub(lambda found: _directive(found[1]), page)


def _target(app: Any, folder: PurePosixPath, link: str) -> str:
    if "://" in link or link.startswith("mailto:"):
        return link
    path = (ROOT / folder / link).resolve().relative_to(ROOT)
    is_page = path.suffix == ".md" and str(path.with_suffix("")) in app.env.found_docs
    if is_page or path.suffix in (".svg", ".png"):
        return link
    return f"{REPOSITORY}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{path}"


def _directive(name: str) -> str:
    module, _, attribute = name.rpartition(".")
    found = getattr(import_module(module), attribute)
    kind = "function"
    options = ""
    if inspect.isclass(found):
        kind = "exception" if issubclass(found, BaseException) else "class"
        options = "   :show-inheritance:\n" if kind == "exception" else "   :members:\n"
    return f"```{{eval-rst}}\n.. auto{kind}:: {name}\n{options}```"


def _without_arguments(
    app: Any, kind: str, name: str, found: Any, options: Any, signature: Any, returns: Any
) -> tuple[str, str] | None:
    """Drop the signatures of classes that users do not call: functions return them."""
    return ("", "") if kind == "class" and found is not JAXLinker else None


def _label(app: Any, document: nodes.document) -> None:
    """Mark tables of sentences, which narrow screens show row by row, and label their cells."""
    for table in document.findall(nodes.table):
        head, body = (list(part.findall(nodes.row)) for part in table.children[0].children[-2:])
        if all(len(cell.astext()) < _SENTENCE for row in body for cell in row.children):
            continue
        table["classes"].append("wordy")
        labels = [cell.astext() for cell in head[0].children]
        for row in body:
            for label, cell in list(zip(labels, row.children, strict=True))[1:]:
                if label and cell.children:
                    cell.children[0].insert(0, nodes.inline("", label, classes=["cell-label"]))


def _home(app: Any, error: Exception | None) -> None:
    """Lead from the address of the site to its first page."""
    if error is None:
        start = f"{root_doc}.html"
        text = f'<!doctype html><meta http-equiv="refresh" content="0; url={start}">'
        (Path(app.outdir) / "index.html").write_text(f'{text}<a href="{start}">{project}</a>\n')


def setup(app: Any) -> None:
    """Connect the functions above."""
    app.connect("source-read", _read)
    app.connect("autodoc-process-signature", _without_arguments)
    app.connect("doctree-read", _label)
    app.connect("build-finished", _home)
