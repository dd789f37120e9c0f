"""The contents of a file, without loading it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pytensor_jaxlink.artifact.container import Place, opened
from pytensor_jaxlink.artifact.documents import Parsed
from pytensor_jaxlink.artifact.records import reader
from pytensor_jaxlink.artifact.signature import Cell, Input, Signature

_MOST_LINES = 20  # of inputs, of members


@dataclass(frozen=True)
class Inspection:
    """The manifest of a file, for people (`str`) and programs (`to_dict`).

    Attributes
    ----------
    path
        The file.
    manifest
        What it says of itself.
    """

    path: str
    manifest: dict[str, Parsed]

    def to_dict(self) -> dict[str, Parsed]:
        """The manifest: a copy, for programs."""
        return json.loads(json.dumps(self.manifest))

    def __str__(self) -> str:
        manifest = self.manifest
        members = manifest["members"]
        total = sum(member["bytes"] for member in members.values())
        saved_by = ", ".join(f"{name} {number}" for name, number in manifest["saved_by"].items())
        lines = [
            f"{self.path}: format version {manifest['version']}, {_size(total)}",
            f"saved by {saved_by}",
        ]
        for name, document in manifest["functions"].items():
            lines += ["", *_function(name, reader(Signature)(document))]
        cells = [reader(Cell)(document) for document in manifest["cells"]]
        if cells:
            lines += ["", "shared variables"]
            lines += [f"  {cell.name or '(unnamed)'}: {cell.type.text}" for cell in cells]
        lines += ["", f"layers: {', '.join(manifest['layers'])}"]
        lines += _compiled(manifest["layers"].get("compiled"))
        lines += [
            f"  {name or 'the function'} has no graph layer, because {reason}"
            for name, reason in manifest.get("without_graph", {}).items()
        ]
        large = sorted(members.items(), key=lambda item: -item[1]["bytes"])
        lines += ["", "members"]
        lines += [f"  {_size(each['bytes']):>10}  {name}" for name, each in large[:_MOST_LINES]]
        if len(large) > _MOST_LINES:
            lines.append(f"  and {len(large) - _MOST_LINES} smaller ones")
        return "\n".join(map(_harmless, lines))


def inspect(path: Place) -> Inspection:
    """Describe a saved file: signatures, state, versions, layers, sizes.  Nothing is loaded.

    Parameters
    ----------
    path
        The file: a path, or a binary file that is open, which is read from its start.

    Raises
    ------
    ArtifactError
        If it is damaged, or no saved function.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import jax.numpy as jnp
    >>> from pytensor_jaxlink import inspect, save
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "double.jaxlink"
    >>> save(lambda x: 2 * x, path, examples=(jnp.ones(3),))
    >>> sorted(inspect(path).manifest["layers"])
    ['compiled']
    """
    with opened(path) as container:
        inspection = Inspection(container.path, container.manifest)
        str(inspection)  # or the error
        return inspection


def _harmless(line: str) -> str:
    """A line in which characters that a terminal would obey, or hide, are escaped."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in line
    )


def _function(name: str, signature: Signature) -> list[str]:
    title = name or signature.name or "the function"
    lines = [
        f"{title}({', '.join(_argument(each) for each in signature.inputs if each.cell is None)})"
    ]
    lines += [
        f"  returns {each.name or '(unnamed)'}: {each.type.text}" for each in signature.outputs
    ]
    for each in signature.inputs:
        if each.cell is not None:
            verb = "updates" if each.updated else "reads"
            lines.append(f"  {verb} {each.name or '(unnamed)'}")
    asked = signature.options.get("compiler_options")
    if asked:
        lines.append(
            f"  was compiled with compiler_options={asked!r:.200}; load takes none from a file"
        )
    return lines


def _compiled(layer: Parsed) -> list[str]:
    """The compiled layer's description of itself."""
    if layer is None:
        return []
    lines = [
        f"  compiled for {', '.join(layer['platforms'])}, vjp_order {layer['vjp_order']}; JAX "
        f"promises to read it until {layer['good_until']}"
    ]
    for name, function in layer["functions"].items():
        prefix = f"{name}: " if name else ""
        lines += [f"  {prefix}{region}" for region in function["regions"]]
        if function["host_ops"]:
            lines.append(f"  {prefix}needs PyTensor for {', '.join(function['host_ops'])}")
    return lines


def _argument(spec: Input) -> str:
    default = "" if spec.default is None else " = ..."
    return f"{spec.name or '(unnamed)'}: {spec.type.text}{default}"


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"
