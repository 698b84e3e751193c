"""StableHLO's text, verified by MLIR's own parser and run by XLA on the CPU."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib import xla_client
from jaxlib.mlir import ir


def verified(text: str) -> Any:
    """The module, by the parser and the verifier of MLIR."""
    with jax_mlir.make_ir_context():
        module = ir.Module.parse(text)
        module.operation.verify()
        return module


def run(text: str, arrays: list[Any]) -> list[Any]:
    """What the function `main` gives."""
    with jax_mlir.make_ir_context():
        module = ir.Module.parse(text)
        module.operation.verify()
        devices = jax.devices("cpu")[:1]
        client = devices[0].client
        compiled = client.compile_and_load(module, xla_client.DeviceList(tuple(devices)), xla_client.CompileOptions())
        with jax.enable_x64(True):
            given = [jax.device_put(np.asarray(x), devices[0]) for x in arrays]
            found = compiled.execute_sharded(given)
            return [np.asarray(parts[0]) for parts in found.disassemble_into_single_device_arrays()]
