"""Write the index of the pages, ``docs/errors.md``."""

from __future__ import annotations

from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.catalogue.codes import GROUPS
from tests.catalogue.programs import ROOT

INDEX = ROOT / "docs" / "errors.md"
_FOLDER = "../pytensor_jaxlink/catalogue"
_HEAD = """# Errors, warnings and graph breaks

Every message of this package that reports an error, a warning or a graph break ends with a code,
such as `[PJL201]`. The page of a code says what it means, shows a program that prints it and the
mended program, and says when to ignore it. The pages are part of the package:

```sh
python -m pytensor_jaxlink explain PJL201
```

An exception has its code as `error.code`, a graph break as `f.explain().breaks[0].code`. So
have the callbacks of an explanation, and the reasons why the start-up cache keeps a function not.
Errors that PyTensor's Python linker raises for the same call have no code: they are the same here.
"""


def index() -> str:
    """The text of the page."""
    parts = [_HEAD]
    for title in GROUPS.values():
        rows = [
            f"| [{code.text}]({_FOLDER}/{code.text}.md) | {code.title} | {_carried_by(code)} |"
            for code in Code
            if code.group == title
        ]
        parts.append(
            "\n".join([f"## {title}\n", "| code | title | in |", "| --- | --- | --- |", *rows])
        )
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _carried_by(code: Code) -> str:
    if code.kind is not None:
        return f"graph breaks: {code.kind.value}"
    if code.listing is not None:
        return code.listing.value
    return ", ".join(f"`{name}`" for name in code.classes)


if __name__ == "__main__":
    INDEX.write_text(index())
    print(f"wrote {INDEX}")
