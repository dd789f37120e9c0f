"""The pages of the catalogue, found by what somebody types."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from textwrap import fill

from pytensor_jaxlink.catalogue.codes import GROUPS, Code

FOLDER = Path(__file__).parent
_TYPED = re.compile(r"(?:PJL)?([0-9]{1,6})", re.ASCII)
_NEAREST = 3
_SHOWN = 40  # characters of an argument in an error


def page_of(code: Code) -> str:
    """The page of a code, as Markdown."""
    return (FOLDER / f"{code.text}.md").read_text(encoding="utf-8")


def wrapped(page: str, width: int) -> str:
    r"""A page for a terminal: lines of text are wrapped, programs are not.

    Examples
    --------
    >>> print(wrapped("Some words.\n\n```python\nname = 'some words'\n```\n", 6))
    Some
    words.
    <BLANKLINE>
    ```python
    name = 'some words'
    ```
    """
    lines: list[str] = []
    in_program = False
    for line in page.strip().splitlines():
        if line.startswith("```"):
            in_program = not in_program
        lines.append(line if in_program else fill(line, width, break_long_words=False))
    return "\n".join(lines)


def find(typed: str) -> Code | None:
    """The code that somebody means, or None.

    Examples
    --------
    >>> find("PJL101") is find("pjl101") is find("101") is Code.NO_RULE
    True
    >>> find("PJL000") is None
    True
    """
    number = _number(typed)
    return next((code for code in Code if int(code.text[3:]) == number), None)


def nearest(typed: str) -> list[Code]:
    """The codes that are most like a word: by number, by a class that carries them, by title.

    Examples
    --------
    >>> [code.text for code in nearest("103.")]
    ['PJL103', 'PJL102', 'PJL104']
    >>> nearest("NotJitableError")[0].title
    'The graph cannot run inside one jax.jit'
    """
    number = _number(re.sub(r"[^0-9A-Za-z]", "", typed[:_SHOWN]))
    if number is not None:
        return sorted(Code, key=lambda code: abs(int(code.text[3:]) - number))[:_NEAREST]
    names: dict[str, Code] = {}
    for code in Code:
        for name in (*code.classes, code.name, *code.title.split()):
            names.setdefault(name.lower(), code)
    found = get_close_matches(typed[:_SHOWN].lower(), names, n=_NEAREST)
    return list(dict.fromkeys(names[name] for name in found))


def listing() -> str:
    """All codes with their titles, a paragraph for each group."""
    groups = {
        title: [f"  {code.text}  {code.title}" for code in Code if code.group == title]
        for title in GROUPS.values()
    }
    return "\n\n".join("\n".join([title, *lines]) for title, lines in groups.items())


def problem(typed: str) -> str:
    """The error for a word that is no code."""
    codes = nearest(typed)
    text = f"there is no code {typed[:_SHOWN]!a}"
    if not codes:
        return f"{text}; without an argument, explain lists all of them"
    return f"{text}; the nearest are {', '.join(f'{each.text} ({each.title})' for each in codes)}"


def _number(typed: str) -> int | None:
    found = _TYPED.fullmatch(typed.strip().upper())
    return None if found is None else int(found[1])
