"""Functions that `jaxify` made: the signature of the flat function, and the trees beside it."""

from __future__ import annotations

from dataclasses import replace

from pytensor_jaxlink.artifact.documents import Json
from pytensor_jaxlink.artifact.signature import Signature
from pytensor_jaxlink.artifact.skeletons import Leaf, describe_skeleton
from pytensor_jaxlink.link.jaxify import PureFunction


def with_trees(signature: Signature, function: PureFunction) -> Signature:
    """How a pure function is called, from the signature of its flat function."""
    outputs = tuple(
        replace(spec, name=name)
        for spec, name in zip(signature.outputs, function.output_names, strict=True)
    )
    return replace(signature, name=function.name, outputs=outputs, trees=_describe_trees(function))


def _describe_trees(function: PureFunction) -> Json:
    trees = function.trees
    places = iter(trees.places)
    arguments = [
        describe_skeleton(
            tree.unflatten([Leaf(next(places)) for _ in range(tree.num_leaves)]),
            f"{function.name}: inputs[{argument}]",
        )
        for argument, tree in enumerate(trees.arguments)
    ]
    outputs = trees.outputs.unflatten(list(map(Leaf, range(trees.outputs.num_leaves))))
    return {
        "arguments": arguments,
        "keywords": {},
        "outputs": describe_skeleton(outputs, f"{function.name}: outputs"),
        "parameters": None,
        "names": list(trees.names[: len(trees.places)]),
        "x64": True,
        "pure": True,
    }
