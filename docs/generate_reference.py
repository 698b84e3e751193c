"""Writes pages of `reference/` from signatures and docstrings: `python docs/generate_reference.py`. A test compares.

A page has families, a family modules of smelt, and a module the public functions and classes that it defines, in their
order. What is public, and by which names, the doors say: the modules that users write.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import smelt as sm

FOLDER = Path(__file__).resolve().parent / "reference"

# By what users write in front of a name. What has several names is shown by the first of them.
DOORS = {
    "sm.": "smelt",
    "sm.random.": "smelt.tensor.random",
    "sm.nn.": "smelt.nn",
    "sm.nn.losses.": "smelt.nn.losses",
    "sm.nn.functional.": "smelt.nn.functional",
    "sm.fft.": "smelt.fft",
    "sm.linalg.": "smelt.linalg",
    "sm.optim.": "smelt.optim",
    "sm.optim.schedules.": "smelt.optim.schedules",
    "sm.data.": "smelt.data",
    "sm.train.": "smelt.train",
    "sm.debug.": "smelt.debug",
    "smelt.formats.": "smelt.formats",
    "sm.tree.": "smelt.tree",
    "sm.errors.": "smelt.errors",
}
AGAIN = "sm.nn.functional."  # PyTorch's names for functions that are elsewhere as well


class Page(NamedTuple):
    """What stands at the top of a page, and below it: titles, and for each the modules of smelt."""

    head: str
    families: dict[str, str]


PAGES = {
    "functions.md": Page(
        """# Functions

`import smelt as sm`. Every function is lazy: it gives a tensor at once, and values are computed when they are asked
for. Most functions of a tensor are also methods of the same name; they are one definition. Those that make up networks
(activations, convolutions, pooling, losses) have a [page of their own](functional.md), and so have
[random numbers](random.md), [transforms](transforms.md) and [files](files.md).

- **Names** are those of the array API standard. Names that only PyTorch has are aliases; `dim=` may be written for
  `axis=`, and `keepdim=` for `keepdims=`. Where the two differ in meaning, the array API wins.
- **Dtypes** promote as in the array API; an integer that meets a float takes the float's dtype. Python numbers are
  weak: they take the dtype of the tensor that they meet, within its kind, and an integer that does not fit is refused.
  So is `np.float64`; other NumPy scalars, and arrays, have their own dtype. Functions of real numbers give float32 for
  integers and bools.
- **Numbers.** Integers wrap; an integer divided by 0 gives 0, and so does a shift beyond the width. Casts from float to
  integer saturate, and NaN becomes 0. 16-bit floats are computed in float32 and rounded once.
- **Mistakes** raise the typed errors of `sm.errors` at the call, with the line of the user's program in the message.
""",
        {
            "Creation": "tensor.creation",
            "Other libraries, and values": "tensor.interop",
            "Elementwise": "tensor.math.elementwise",
            "Angles, and hyperbolic functions": "tensor.math.trigonometry",
            "Logarithms, roots and special functions": "tensor.math.special",
            "Signs, neighbors and bits": "tensor.math.floats",
            "Reductions": "tensor.math.reductions",
            "Reductions without NaN": "tensor.math.nans",
            "Norms": "tensor.math.norms",
            "Quantiles": "tensor.math.quantiles",
            "Scans": "tensor.math.scans",
            "Movement": "tensor.shape.movement",
            "Padding": "tensor.shape.padding",
            "Joining and splitting": "tensor.shape.joining",
            "Finding by index": "tensor.index.take_scatter",
            "Assignment": "tensor.index.assignment",
            "Order": "tensor.math.ordering",
            "Finding by value": "tensor.index.nonzero",
            "Bins": "tensor.math.histograms",
            "Distinct elements": "tensor.index.unique",
            "Products": "tensor.math.linear",
            "Products by labels": "tensor.math.einsums",
            "Questions about dtypes": "tensor.scalars",
            "The array API namespace": "tensor.namespace",
            "Devices": "tensor.devices",
        },
    ),
    "tensor.md": Page(
        """# Tensors, trees and errors

A `Tensor` has the [functions](functions.md) of tensors as methods, operators, and what only methods can do. Nested
tuples, lists and dictionaries of tensors are *trees*, and so are modules, dataclasses and classes that are registered.
""",
        {
            "Tensors": "tensor.tensor",
            "Sizes and dtypes": "graph.index dtypes",
            "Trees": "tree",
            "Errors": "errors",
        },
    ),
    "fft.md": Page(
        """# Fourier transforms

`sm.fft` has the functions of the array API's extension of that name, for any size.

- **Where it is computed.** Transforms are tensor code: products with small matrices, which are fused with what stands
  around them. Sizes are known at the call.
- **Dtypes.** float32 gives complex64, and float64 complex128; narrower floats and integers are computed in float32.
- **Derivatives and transforms.** All of them: a transform is linear.
""",
        {"Transforms": "fft.transforms", "Frequencies": "fft.places"},
    ),
    "linalg.md": Page(
        """# Linear algebra

`sm.linalg` has the functions of the array API's extension of that name, and `solve_triangular`. Matrices are the last
two axes; axes in front of them are a batch of any shape.

- **Where it is computed.** Factors, inverses and determinants are LAPACK's, called through NumPy in the middle of
  compiled programs; norms, products and traces are tensor code. `matmul`, `matrix_transpose`, `outer`, `tensordot`,
  `vecdot` and `vector_norm` are those of [`sm`](functions.md).
- **Dtypes.** float32 and float64 are computed as they are. 16-bit floats are computed in float32 and rounded once,
  integers give float32. complex64 and complex128 give what is real of them (eigenvalues, singular values, norms) in
  the dtype of their parts.
- **Mistakes.** Shapes are checked at the call. A matrix that has no answer (a singular one for `inv` and `solve`, one
  that is not positive definite for `cholesky`, NaN for `svd` and `pinv`) raises `sm.errors.LinearAlgebraError` when
  values are asked for, and names the matrix of the batch. It is a `numpy.linalg.LinAlgError`, too.
- **Derivatives** go in both directions and are of any order, with a few exceptions that are errors: vectors that only
  complete others (`full_matrices=True`, `mode="complete"`), the logarithm of a determinant that is 0, and third
  derivatives of `det`. Vectors of equal values have none: they are infinite or NaN. `cholesky`, `eigh` and
  `eigvalsh` are functions of symmetric matrices, and so are their gradients.
- **Transforms.** `jit`, `vmap`, loops and branches, and sizes that are known at the call.
""",
        {
            "Equations": "linalg.solving",
            "Factors and values": "linalg.spectral",
            "Norms and powers": "linalg.norms",
            "Products and diagonals": "linalg.products",
        },
    ),
    "random.md": Page(
        """# Random numbers

`sm.random` draws from a counter: the same seed gives the same numbers on every device. Without a `key` a draw takes the
next number of the global seed, also inside compiled functions; with a key it depends on nothing else.
""",
        {
            "Seeds and keys, and draws": "tensor.random tensor.random.tails tensor.random.rejection",
            "Choices": "tensor.random.choices",
            "First weights of layers": "tensor.random.initializers",
        },
    ),
    "transforms.md": Page(
        """# Transforms

Functions from functions to functions. They compose in any order, and what they give is lazy. A type checker knows what
they give from the annotations of the function.
""",
        {
            "Compiling": "transform.jit",
            "Derivatives": "transform.gradients",
            "Derivatives of all elements": "transform.jacobians",
            "Own derivatives, and constants": "transform.custom",
            "Less memory for derivatives": "transform.checkpoint",
            "Batching": "transform.vmap",
            "Loops and branches inside compiled graphs": "transform.control",
            "Scans of any function": "transform.associative",
            "Python inside compiled graphs": "transform.callback",
            "Functions from and to JAX": "frontends.jax frontends.exported",
            "Equalities of your own": "doors.rules",
            "Operations of your own": "doors.operations",
            "Kernels of your own": "doors.kernels",
            "Settings for a while": "config",
            "Looking inside": "transform.explain",
            "Faster schedules": "tuning.programs",
        },
    ),
    "nn.md": Page(
        """# Modules and layers

`sm.nn` has the names, arguments, layouts and names of weights of PyTorch's layers. Modules are plain classes: set
attributes in `__init__`, compute in `__call__`. The functions behind the layers are on [their own page](functional.md);
the guide is [training](../guide/training.md).
""",
        {
            "Modules": "nn.module nn.containers",
            "Linear, and shapes": "nn.linear",
            "Convolution": "nn.convolution",
            "Activations": "nn.activations",
            "Normalization": "nn.normalization nn.running_norms",
            "Dropout": "nn.dropout",
            "Embeddings, and positions": "nn.embedding nn.positions nn.rotary nn.quantized",
            "Attention": "nn.attention nn.cache",
            "Transformers": "nn.transformer",
            "Recurrent networks": "nn.recurrent nn.cells",
            "Pooling": "nn.pooling",
            "Padding": "nn.padding",
            "Resizing, and windows": "nn.resizing",
            "Graphs": "nn.graphs nn.segments",
            "Losses as modules": "nn.criteria",
        },
    ),
    "functional.md": Page(
        """# Functions of networks

Activations, convolutions, pooling and losses, of which [layers](nn.md) are made. By PyTorch's names and with its
arguments they are in `sm.nn.functional` as well. The mean over everything is the default of all losses:
`reduction="sum"` adds up, `"none"` gives each loss by itself.
""",
        {
            "Activations": "tensor.networks.activations",
            "Losses: classes": "nn.losses.classes nn.losses.ctc",
            "Losses: distances": "nn.losses.regression nn.losses.distances",
            "Losses: likelihoods": "nn.losses.likelihoods",
            "Attention, and normalization": "tensor.networks.layers",
            "Convolution": "tensor.windows.convolution",
            "Pooling": "tensor.windows.pooling tensor.windows.adaptive_pooling",
            "Windows": "tensor.windows.folding",
            "Resizing": "tensor.windows.resizing",
            "Only in `sm.nn.functional`": "nn.functional",
        },
    ),
    "optim.md": Page(
        """# Optimizers and schedules

An optimizer is a chain of steps from gradients to updates. `opt.init(model)` makes its state, and
`model, state = opt.update(model, grads, state)` is a step; the guide is [optimizers](../guide/optimizers.md).
""",
        {
            "Optimizers": "optim.optimizers",
            "Schedules of learning rates": "optim.schedules optim.plateau",
            "Around optimizers": "optim.groups optim.wrapping optim.averages optim.precision",
            "Chains, and steps for them": "optim.core optim.steps optim.moments optim.matrices",
        },
    ),
    "data.md": Page(
        """# Data

Datasets, and loaders that make batches of them while the step runs; the guide is
[training loops](../guide/training-loops.md).
""",
        {
            "Loaders": "data.loader",
            "Datasets": "data.datasets data.mapped",
            "Images": "data.sets data.idx",
            "Text": "data.text",
        },
    ),
    "train.md": Page(
        """# Training loops

What loops need besides modules and optimizers; the guide is [training loops](../guide/training-loops.md).
""",
        {
            "Metrics": "train.metrics",
            "Progress": "train.progress",
            "Checkpoints": "train.checkpoints",
            "Logs": "train.loggers",
            "Pictures": "train.pictures",
        },
    ),
    "files.md": Page(
        """# Files

What is read is hostile until every number in it has been checked; what is written is whole. Nothing is ever unpickled.
""",
        {
            "Models": "formats.models",
            "Safetensors": "formats.safetensors",
            "Language models": "formats.gguf formats.huggingface formats.blocks formats.checked_json",
            "Pictures, and any file": "formats.png formats.whole",
        },
    ),
    "debug.md": Page(
        """# Debugging and measuring

Outside of these blocks a program is what it is without them; the guide is [debugging](../guide/debugging.md).
""",
        {
            "Where a NaN comes from": "debug.nans",
            "Values while a program runs": "debug.printing",
            "Where the time goes": "debug.profiling",
        },
    ),
}


# --- what is public


def has_text(value: Any) -> bool:
    """Whether something is a function or class, and not a type that is only there for annotations."""
    return inspect.isfunction(value) or inspect.isclass(value)


@cache
def public() -> dict[Any, list[str]]:
    """Public functions and classes, with all their names."""
    found: dict[Any, list[str]] = {}
    for prefix, place in DOORS.items():
        module = importlib.import_module(place)
        errors = [name for name in vars(module) if name.endswith(("Error", "Warning"))]
        for name in getattr(module, "__all__", errors):
            value = getattr(module, name)
            if has_text(value):
                found.setdefault(inspect.unwrap(value), []).append(prefix + name)
    return found


def entries(family: str) -> Iterator[Any]:
    """The public functions and classes of some modules, in the order of their definitions."""
    for name in family.split():
        module = importlib.import_module(f"smelt.{name}")
        for value in dict.fromkeys(map(inspect.unwrap, filter(has_text, vars(module).values()))):
            if value.__module__ == module.__name__ and value in public():
                yield value


def names(value: Any) -> list[str]:
    """All names of something public: first the one that it is shown by."""
    every = public()[value]
    if any(not name.startswith(AGAIN) for name in every):
        every = [name for name in every if not name.startswith(AGAIN)]
    door = every[0].removesuffix(every[0].split(".")[-1])
    return sorted(every, key=lambda name: name != door + value.__name__)


# --- texts


def signature(name: str, function: Any, skip: int = 0) -> str:
    """The call as a reader would write it: names and defaults, without types."""
    parts: list[str] = []
    kinds = inspect.Parameter
    starred = False
    for parameter in list(inspect.signature(function).parameters.values())[skip:]:
        if parameter.kind is kinds.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        default = "" if parameter.default is kinds.empty else f"={shown(parameter.default)}"
        prefix = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        starred = starred or prefix == "*"
        parts.append(f"{prefix}{parameter.name}{default}")
    return f"{name}({', '.join(parts)})"


def shown(default: Any) -> str:
    """A default value."""
    return default.__name__ if inspect.isfunction(default) else repr(default).replace("smelt.", "")


def markdown(text: str) -> str:
    """A docstring with its examples as blocks of code."""
    lines: list[str] = []
    inside = False
    for line in [*text.splitlines(), ""]:
        if line == ">>> import smelt as sm":
            continue
        if line.startswith(">>>") and not inside:
            lines.append("```pycon")
            inside = True
        elif not line and inside:
            lines.append("```")
            inside = False
        lines.append(line)
    return "\n".join(lines).strip()


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class, without those of public classes below it, and of Python's own."""
    seen = {name for base in (list, dict, tuple, BaseException) if issubclass(kind, base) for name in dir(base)}
    seen.update(getattr(kind, "_fields", ()))
    for base in kind.__mro__:
        if base is not kind and base in public():
            break
        for name, value in vars(base).items() if base.__module__.startswith("smelt") else ():
            value = getattr(value, "__func__", value)
            overrides = not value.__doc__ and any(hasattr(other, name) for other in base.__mro__[1:])
            if name.startswith("_") or name in seen or overrides or inspect.unwrap(value) in public():
                continue
            if isinstance(value, property) or (inspect.isfunction(value) and "." in value.__qualname__):
                seen.add(name)
                yield name, value


def member(kind: type, name: str, value: Any) -> str:
    """A line about a method or property."""
    summary = " ".join((inspect.getdoc(getattr(kind, name)) or "").partition("\n\n")[0].split())
    if isinstance(value, property):
        return f"- `.{name}`: {summary}"
    bound = not isinstance(inspect.getattr_static(kind, name), staticmethod)
    return f"- `.{signature(name, value, skip=bound)}`: {summary}"


def called(kind: type) -> str:
    """How a layer is called, unless it is with x alone."""
    call = signature("", kind.__call__, skip=1) if issubclass(kind, sm.nn.Module) else "(x)"
    return "" if call in ("(x)", "(*args, **kwargs)") else f", called with `{call}`"


def entry(value: Any) -> str:
    """A function or class: how it is called, what it does, an example."""
    first, *others = names(value)
    title, text = f"### `{first.split('.')[-1]}`", markdown(inspect.getdoc(value) or "")
    also = f"Also: {', '.join(f'`{name}`' for name in others)}." if others else ""
    if not inspect.isclass(value):
        parts = [title, f"`{signature(first, value)}`", text, also]
    elif getattr(value, "_is_protocol", False) or issubclass(value, BaseException):
        parts = [title, f"`{first}`", text]
    else:
        base = next((base for base in value.__mro__[1:] if base in public()), sm.nn.Module)
        more = f"Its other methods are those of [`{names(base)[0]}`](#{base.__name__.lower()})."
        lines = "\n".join(member(value, *found) for found in members(value))
        more = "" if base is sm.nn.Module else more
        parts = [title, f"`{signature(first, value)}`{called(value)}", text, also, lines, more]
    return "\n\n".join(filter(None, parts))


def text(name: str) -> str:
    """A whole page."""
    page = PAGES[name]
    parts = [page.head.strip(), "This page is written by `python docs/generate_reference.py` from the docstrings."]
    for title, family in page.families.items():
        parts += [f"## {title}", *map(entry, entries(family))]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    for name in PAGES:
        (FOLDER / name).write_text(text(name), encoding="utf-8")
