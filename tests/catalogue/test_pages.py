"""Every page: its program shows its code, and the mended one shows none."""

from __future__ import annotations

import builtins
from pathlib import Path

import pytest

from pytensor_jaxlink import errors
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.catalogue.pages import FOLDER, page_of
from tests.catalogue.__main__ import INDEX, index
from tests.catalogue.programs import ALSO, APART, MENDED, SECTIONS, Page, outcome_of

pytestmark = [
    # The first use of PyTensor's rules for JAX warns about other packages.
    pytest.mark.filterwarnings("ignore"),
]
ALL = pytest.mark.parametrize("code", Code, ids=lambda code: code.text)


@ALL
def test_the_program_shows_the_code(code: Code, tmp_path: Path) -> None:
    found = outcome_of(code, 0, tmp_path)
    assert found.codes == {code.text} | ALSO.get(code.text, set()), found.text
    warning = "JAXLinkWarning" in code.classes
    if warning:
        assert "JAXLinkWarning" in found.text
    without_error = warning or code.kind is not None or code.listing is not None
    assert (found.error is None) == without_error
    if isinstance(found.error, errors.JAXLinkError):
        assert found.error.code == code.text
        assert type(found.error).__name__ in code.classes
    elif found.error is not None and code.text not in APART:
        assert any(name in found.text for name in code.classes), found.text


@ALL
def test_the_mended_program_shows_none(code: Code, tmp_path: Path) -> None:
    found = outcome_of(code, 1, tmp_path)
    assert found.error is None, found.text
    assert found.codes == MENDED.get(code.text, set()), found.text


@ALL
def test_the_page_has_its_parts(code: Code) -> None:
    page = Page.of(code)
    assert page.heading == f"# {code.text}: {code.title}"
    assert [*page.sections] in (SECTIONS[:3], SECTIONS)
    assert all(text.strip() for text in page.sections.values())
    assert page.programs[0] != page.programs[1]
    lines = page_of(code).splitlines()
    assert page_of(code).isascii(), "a terminal may not know other characters"
    assert not [line for line in lines if line != line.rstrip()]


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} == {code.text for code in Code}


def test_the_classes_are_there() -> None:
    foreign = {"MissingInputError", "ShardingTypeError"}  # of PyTensor and JAX
    for name in {name for code in Code for name in code.classes} - foreign:
        found = getattr(errors, name, None) or getattr(builtins, name)
        assert issubclass(found, Exception)


def test_the_index_lists_them_all() -> None:
    assert INDEX.read_text() == index(), "python -m tests.catalogue"
