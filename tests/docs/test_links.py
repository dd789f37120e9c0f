"""Links between the pages, and from the pages to the code, lead somewhere."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / ".github").rglob("*.md")),
]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
SETUP = ConfigParser()
SETUP.read(ROOT / "setup.cfg")
REPOSITORY = SETUP["metadata"]["url"] + "/blob/main/"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing


def test_the_links_of_the_readme_work_on_a_package_index() -> None:
    links = LINK.findall((ROOT / "README.md").read_text())
    assert len(links) > 10
    assert all(link.startswith(REPOSITORY) for link in links)
    assert not [link for link in links if not (ROOT / link.removeprefix(REPOSITORY)).exists()]


def test_the_walk_has_at_most_ten_stops() -> None:
    text = (ROOT / "docs" / "how_a_graph_becomes_a_call.md").read_text()
    stops = re.findall(r"^\d+\. .*$", text, re.MULTILINE)
    assert 1 < len(stops) <= 10
    assert all(LINK.search(stop) for stop in stops)
