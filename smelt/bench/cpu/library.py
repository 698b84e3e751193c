"""What a contender brings: a way to hold arrays, a way to run operations, and spellings for the networks."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from smelt.errors import ArgumentError

PEERS = ("numpy", "torch", "torch.compile", "jax")  # whom smelt meets unless others are named
TUNING_PEERS = ("torch.max-autotune", "tvm")  # those that search take minutes: only where they are asked for
KNOWN = ("torch", "torch.compile", "torch.max-autotune", "jax", "numpy", "tvm")
_MODULES = {"torch.compile": "in_torch", "torch.max-autotune": "in_torch"}
_DISTRIBUTIONS = {"torch": "torch", "jax": "jax", "tvm": "apache-tvm"}


@dataclass(frozen=True)
class Spelling:
    """The words of a library that the networks are written in."""

    affine: Callable[..., Any]  # (x, weight, bias): x @ weight + bias
    linear: Callable[..., Any]  # (x, weight): x @ weight.T, as checkpoints have it
    layer_norm: Callable[..., Any]  # (x, weight, bias), over the last axis
    rms_norm: Callable[..., Any]  # (x, weight), over the last axis
    gelu: Callable[..., Any]  # by its tanh approximation
    silu: Callable[..., Any]
    attention: Callable[..., Any]  # (query, key, value, causal) over (batch, heads, length, features)
    concat: Callable[..., Any]  # (parts, axis)


@dataclass(frozen=True)
class Library:
    """`compiled` makes of a function one that has finished when it returns; `operations` are what cases name."""

    hold: Callable[[Any], Any]  # a NumPy array in the library's own memory
    compiled: Callable[[Callable[..., Any]], Callable[..., Any]]
    give: Callable[[Any], Any]  # a result as a NumPy array
    operations: Mapping[str, Callable[..., Any]]


def load(name: str, threads: int) -> Library:
    """The library of a name, told how many threads it may use."""
    module = importlib.import_module(f"smelt.bench.cpu.{_MODULES.get(name, f'in_{name}')}")
    library: Library = module.library(name, threads)
    return library


def installed(name: str) -> bool:
    """Whether the package of a peer is there; TVM says itself what is missing."""
    return name == "tvm" or find_spec(name.partition(".")[0]) is not None


def versions(peers: Iterable[str] = PEERS) -> dict[str, str | None]:
    """Of those peers that need not be installed; None for those that are not."""
    wanted = {peer.partition(".")[0] for peer in peers}
    return {
        name: metadata.version(distribution) if installed(name) else None
        for name, distribution in _DISTRIBUTIONS.items()
        if name in wanted
    }


def named(text: str) -> list[str]:
    """Peers from what a user wrote: `torch,jax`."""
    found = [name.strip() for name in text.split(",") if name.strip()]
    for name in found:
        if name not in KNOWN:
            raise ArgumentError(f"bench: no peer is called {name!r:.40}", hint=f"The known ones: {', '.join(KNOWN)}.")
    return found
