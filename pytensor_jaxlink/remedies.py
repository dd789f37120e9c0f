"""Every advice that this library prints.

A remedy is a member here and nowhere else a string, so that a test can apply each of them
(`tests/link/test_remedies.py`): it shows a program that prints the remedy, and the same program
after the remedy, which no longer does.
"""

from __future__ import annotations

from enum import Enum

_OR = "; or "


class Remedy(Enum):
    """One advice; names in braces are filled in by `text`."""

    # -- an operation without a JAX implementation
    CALLBACK = 'let JAX call it inside its region: JAXLinker(host_ops="callback")'
    INFER_SHAPE_OF_FUNCTION = (
        "tell the shape of its result, wrap_py(itypes, otypes, infer_shape=...), and let JAX call "
        'it: JAXLinker(host_ops="callback")'
    )
    SHAPES_IN_OTYPES = (
        'declare static shapes in otypes, and let JAX call it: JAXLinker(host_ops="callback")'
    )
    INFER_SHAPE_OF_OP = (
        "give {op} an infer_shape that tells the shape of each output, and let JAX call it: "
        'JAXLinker(host_ops="callback")'
    )
    WRAP_JAX = (
        "write `{op}` with jax.numpy and wrap it, pytensor.wrap_jax, which needs inputs of known "
        "shapes (pt.specify_shape)"
    )
    OWN_OP = (
        "make `{op}` the perform of an Op class of its own, and register a JAX implementation of "
        "that class with pytensor.link.jax.dispatch.jax_funcify"
    )
    REGISTER = "register a JAX implementation of {op} with pytensor.link.jax.dispatch.jax_funcify"
    REGISTER_SAMPLER = (
        "register a JAX sampler of {op} with pytensor.link.jax.dispatch.random.jax_sample_fn"
    )
    DENSE = "make the matrix dense first: pytensor.sparse.dense_from_sparse"

    # -- a shape that depends on data
    MASK = "keep the full array and mask it: pt.where(mask, x, 0) in the place of x[mask]"
    MASKED_UPDATE = "give a value for every entry, and write pt.where(mask, value, x)"
    INDICES_OUTSIDE = (
        "compute the indices before the call, np.nonzero, and make them an input of the function"
    )
    UNIQUE_OUTSIDE = (
        "compute the distinct values before the call, np.unique, and make them an input of the "
        "function"
    )
    COUNT_ONLY = (
        "return only the number of distinct values (.shape[0]) or a reduction over them (.sum()), "
        "which needs no selection"
    )
    POSITIONS = (
        "compute the positions before the call, np.repeat(np.arange({length}), counts), make them "
        "an input of the function, and write {taken}"
    )
    EQUALLY_OFTEN = "repeat every entry equally often, by an integer"

    # -- a size that JAX has to know
    SIZE_INPUT = "make the size an integer input of the function"
    MASK_THE_REST = (
        "keep the full array and mask the rest: pt.where(pt.arange(x.shape[0]) < size, x, 0)"
    )
    KNOWN_SIZE = "compute it from shapes, integer inputs or constants"

    # -- inner graphs
    MOVE_OUT = "move it out of the inner graph"
    SAME_SHAPES = "give both sides the same shapes"

    # -- a JAX implementation that fails
    CORRECT_RULE = "correct the JAX implementation of {op}"
    STATIC_INPUTS = (
        "if it needs the value of an input, register that with pytensor_jaxlink.static_inputs"
    )

    # -- callbacks
    KEEP_PROMISE = "Correct its infer_shape or the types of its outputs"
    SPLIT = 'give the function host_ops="split", which promises nothing'
    HOLD_CONSTANT = "Differentiate with respect to the other arguments alone (jax.grad's argnums)"
    PULLBACK_METHOD = "Give {op} a method pullback(inputs, outputs, cotangents)"
    PULLBACK_AROUND = (
        "Wrap it: OpFromGraph([x], [{op}(x)], pullback=lambda inputs, outputs, cotangents: [...])"
    )
    REAL = "give the Op real inputs and outputs"
    WHOLE_ARRAY = "give it the whole array and select from what it gives, or use pytensor.grad"

    # -- recompilation
    PAD = "Pad arrays to a few lengths and mask the rest"
    FEWER_SIZES = "pass fewer different sizes"
    RAISE_LIMIT = "raise JAXLinker(recompile_limit=...)"

    # -- under the user's own transformations
    STATIC_ARGUMENT = (
        "Pass it as a static argument: jax.jit(f.jax_fn, static_argnums=f.static_argnums)"
    )
    STATE_AS_ARGUMENT = (
        "Let the state be an argument and the new state a result, as in "
        "pytensor_jaxlink.jaxify(inputs, outputs, updates) or f.jax_fn"
    )
    STATIC_ARGUMENT_OF_PURE = (
        "Pass it as a static argument: jax.jit(fn, static_argnums=fn.static_argnums)"
    )
    BIND_MATRIX = "Give a matrix of SciPy before JAX traces: jax.jit(functools.partial(fn, matrix))"
    RETURN_ARRAYS_OF_MATRIX = (
        "Return its arrays, pytensor.sparse.csm_properties(matrix), or the dense matrix, "
        "pytensor.sparse.dense_from_sparse(matrix)"
    )
    SIZES_APART = "give sizes as arguments of their own"
    ONE_VALUE = "Give all leaves of one variable the same value"
    SIZES_IN_TUPLES = "put sizes into tuples of sizes"

    # -- memory and devices
    PASS_COPY = "Pass a copy to the call that donates it"
    DO_NOT_DONATE = (
        "compile that function without donating it: JAXLinker(donate='updates'), and without "
        "In(mutable=True)"
    )
    SAME_DEVICES = "Put them on the same ones by jax.device_put(value, sharding)"
    NUMPY_ARRAYS = "give NumPy arrays, which go where the others are"
    AUTO_MESH = "Make the mesh with jax.make_mesh(..., axis_types=(AxisType.Auto, ...))"
    CALL_ITSELF = "call the function itself, which does so"
    WRITE_PLATFORM = "write a platform ('cpu'), or one of its devices ('cpu:0')"
    SHARDED_ARGUMENTS = (
        "arrays on several devices are given as arguments, jax.device_put(x, sharding)"
    )
    GIVE_ARRAYS = "give arrays"

    # -- saved functions
    INSTALL = "pip install 'pytensor_jaxlink[save]'"
    SAVE_GRAPH_ONLY = "save(..., compiled=False)"
    OTHER_MODE = "Give a mode that does not, such as JAXLinker(), 'NUMBA' or Mode(linker='py')"
    LOAD_AGAIN = "Load the file again, in the process that needs it: load(path)"
    LOAD_GRAPH = "load(path, prefer='graph')"
    SAVE_FROM_GRAPH = "Save the function of load(path, prefer='graph'), or copy the file"
    CALL_FIRST = "Call the function with the sizes that you want before you save it"
    NAME_SIZES = "name them: static={...}, dims={...}"
    SAVE_SIZES = "Save the function with static={...} or after calls with these sizes"
    SAVE_BACKWARD = "Save it with save(f, path, vjp_order=1), or as high as you differentiate"
    BACKWARD_ALONE = "Differentiate backward, by jax.grad or jax.vjp"
    OPEN_AXIS = "Leave that axis open when you save, dims={...}, and give all rows at once"
    SAVE_GRAPH_TOO = "Save it with save(f, path, graph=True)"
    SAVE_AGAIN = "Save the function again"
    COPY_AGAIN = "copy the file again from where it is whole"
    NEWER_VERSION = "Load it with a newer version"
    TOP_LEVEL = "Define it at the top level of a module"
    PROPERTIES = "Say what it is made of: pytensor_jaxlink.artifact.graphs.properties_of.register"
    GIVE_EXAMPLES = "Give arguments of a call, or several: save(fn, path, examples=(x, y))"
    STATIC_ARGNUMS = (
        "Name the arguments that are no arrays, or must be known while JAX traces: "
        "save(fn, path, examples=..., static_argnums=...)"
    )
    SEVERAL_FUNCTIONS = "Save them as functions with names of their own: save({...}, path)"
    MORE_EXAMPLES = "Save it with an example of such a call, or with dims={...} for other shapes"
    BIND_TO_FUNCTION = "Give it to the function before you save: functools.partial(fn, it)"
    ALLOW = "If you trust it: load(path, allow=({module!r},))"

    def text(self, **names: str) -> str:
        """The advice for these names."""
        return self.value.format(**names) if names else self.value


def either(*remedies: str) -> str:
    """Several remedies, of which one is enough."""
    return _OR.join(dict.fromkeys(filter(None, remedies)))


def split(text: str) -> tuple[str, ...]:
    """The remedies of `either`."""
    return tuple(filter(None, text.split(_OR)))
