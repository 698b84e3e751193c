"""Files that the safetensors library writes are read here, and the other way; PyTorch's models among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.dtypes import ALL, STORAGE
from smelt.formats import SafeTensors

pytestmark = pytest.mark.peers

safetensors = pytest.importorskip("safetensors", reason="peers: safetensors is not installed")
torch: Any = pytest.importorskip("torch", reason="peers: torch is not installed")

HELD = [dtype for dtype in ALL + STORAGE if dtype.bits >= 8]


def in_torch(dtype: sm.DType) -> Any:
    return getattr(torch, dtype.name)


@pytest.mark.parametrize("dtype", HELD, ids=str)
@pytest.mark.parametrize("shape", [(), (0, 2), (5,), (3, 4)])
def test_tensors_go_both_ways(dtype: sm.DType, shape: tuple[int, ...], tmp_path: Path) -> None:
    import safetensors.torch as peer

    limit = 2 if dtype.is_bool else 120
    raw = np.random.default_rng(0).integers(0, limit, int(np.prod(shape)) * dtype.itemsize, np.uint8)
    theirs = (
        torch.frombuffer(bytearray(raw), dtype=in_torch(dtype)) if raw.size else torch.empty(0, dtype=in_torch(dtype))
    )
    peer.save_file({"x": theirs.reshape(shape), "byte": torch.zeros(1, dtype=torch.uint8)}, tmp_path / "theirs")
    ours = sm.load(tmp_path / "theirs")["x"]
    assert (ours.dtype, ours.shape, ours.numpy().tobytes()) == (dtype, shape, raw.tobytes())
    sm.save({"x": ours, "byte": sm.zeros(1, dtype=sm.uint8)}, tmp_path / "ours")
    back = peer.load_file(tmp_path / "ours")["x"]
    assert (back.dtype, tuple(back.shape)) == (in_torch(dtype), shape)
    assert back.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() == raw.tobytes()


def test_metadata_goes_both_ways(tmp_path: Path) -> None:
    import safetensors.numpy as peer

    peer.save_file({"x": np.ones(2)}, tmp_path / "theirs", metadata={"format": "np", "ü": "ß"})
    assert SafeTensors(tmp_path / "theirs").metadata == {"format": "np", "ü": "ß"}
    sm.save({"ü.x": sm.ones(2)}, tmp_path / "ours", metadata={"a": "b"})
    with safetensors.safe_open(tmp_path / "ours", "np") as file:
        assert file.metadata() == {"a": "b"}
        assert list(file.keys()) == ["ü.x"]


class Tied(sm.nn.Module):
    def __init__(self) -> None:
        self.first, self.second = sm.nn.Linear(3, 3, bias=False), sm.nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight


def tied_in_torch() -> Any:
    module = torch.nn.Module()
    module.first, module.second = torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3, bias=False)
    module.second.weight = module.first.weight
    return module


def test_models_with_tied_weights_go_both_ways(tmp_path: Path) -> None:
    import safetensors.torch as peer

    theirs, ours = tied_in_torch(), Tied()
    peer.save_model(theirs, str(tmp_path / "theirs"))
    loaded = sm.load(ours, tmp_path / "theirs")
    assert loaded.first.weight is loaded.second.weight
    assert np.array_equal(loaded.first.weight.numpy(), theirs.first.weight.detach().numpy())
    sm.save(ours, tmp_path / "ours")
    peer.load_model(theirs, str(tmp_path / "ours"))
    assert np.array_equal(ours.second.weight.numpy(), theirs.second.weight.detach().numpy())


BAD = [b"", b"\0" * 8, (2).to_bytes(8, "little") + b"{}x", (1 << 40).to_bytes(8, "little") + b"{}"]


@pytest.mark.parametrize("data", BAD)
def test_both_refuse_the_same(data: bytes, tmp_path: Path) -> None:
    import safetensors.numpy as peer

    (tmp_path / "bad").write_bytes(data)
    with pytest.raises(sm.errors.ParseError):
        sm.load(tmp_path / "bad")
    with pytest.raises(safetensors.SafetensorError):
        peer.load_file(tmp_path / "bad")
