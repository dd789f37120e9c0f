"""Loading: from the members of a file to functions.  Neither PyTensor nor the compiler is needed.

What makes functions from graphs is imported where a graph is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from pytensor_jaxlink.artifact.container import Container
from pytensor_jaxlink.artifact.signature import cell_of, signature_of
from pytensor_jaxlink.artifact.values import DataReader
from pytensor_jaxlink.errors import ArtifactError


def load(
    path: str | os.PathLike[str],
    *,
    prefer: Literal["compiled", "graph"] = "compiled",
    allow: Sequence[str] = (),
    mode: Any = None,
) -> Any:
    """The function, or the dictionary of functions, that `save` wrote to a file.

    Parameters
    ----------
    path
        The file.
    prefer
        Which layer.  ``"graph"`` gives the same kind of function as `pytensor.function`, with the
        variables that it is made of as ``f.graph`` (``inputs``, ``outputs``, ``updates`` and
        ``state``).
    allow
        Modules, beside those of PyTensor, that names in the file may lead to: those that define
        your own Ops.  They are imported.
    mode
        What compiles the graph, where another mode than the saved one is wanted.

    Raises
    ------
    ArtifactError
        If the file is damaged, or holds what this version or this environment does not have.
    """
    if prefer not in ("compiled", "graph"):
        raise ValueError(f"prefer={prefer!r} is not one of 'compiled', 'graph'")
    with Container(path) as container, _reading(container):
        manifest = container.manifest
        signatures = {name: signature_of(each) for name, each in manifest["functions"].items()}
        cells = [cell_of(each) for each in manifest["cells"]]
        data = DataReader(container, container.document("data.json"))
        functions = _from_graph(container, signatures, cells, data, allow, mode)
        return functions[""] if manifest["single"] else functions


def _from_graph(
    container: Container, signatures: Any, cells: Any, data: DataReader, allow: Any, mode: Any
) -> dict[str, Any]:
    from pytensor_jaxlink.artifact.graph.loading import functions_of

    document = container.document("graph.json")
    version = container.manifest["saved_by"]["pytensor"]
    return functions_of(
        document, signatures, cells, data, allow=allow, mode=mode, version=version
    )


@contextmanager
def _reading(container: Container) -> Iterator[None]:
    """Turn whatever goes wrong with a file into the error that names it."""
    try:
        yield
    except ArtifactError as error:
        named = str(error).startswith(f"{container.path}: ")
        raise error if named else container.error(str(error)) from error
    except (ImportError, OSError):
        raise
    except Exception as error:
        raise container.error(
            f"it does not hold what a saved function holds ({type(error).__name__}: {error})"
        ) from error
