"""Tensors between PyTorch and smelt: whatever they are, their values are taken; nobody changes what is given out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ParseError

pytestmark = pytest.mark.peers

torch: Any = pytest.importorskip("torch", reason="peers: torch is not installed")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_model_takes_the_state_of_another_in_any_dtype(dtype: str) -> None:
    theirs = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.LayerNorm(3)).to(getattr(torch, dtype))
    for state in (theirs.state_dict(), dict(theirs.named_parameters())):
        ours = sm.nn.Sequential(sm.nn.Linear(4, 3), sm.nn.LayerNorm(3))
        ours.load_state_dict(state)
        for name, tensor in ours.state_dict().items():
            assert tensor.dtype is sm.float32
            np.testing.assert_array_equal(tensor.numpy(), state[name].detach().float().numpy())


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_tensors_of_every_kind_are_taken(dtype: str) -> None:
    x = sm.asarray(torch.ones(2, 3).to(getattr(torch, dtype)))
    assert x.dtype.name == dtype and x.astype(sm.float32).tolist() == [[1.0] * 3] * 2


def test_what_torch_holds_with_the_other_sign() -> None:
    x = torch.tensor([1 + 2j, 3 - 1j]).conj().imag
    for taken in (sm.asarray(x), sm.from_dlpack(x), sm.ones(2) * x, sm.jit(lambda x: x * 1)(x)):
        assert taken.tolist() == [-2, 1]


def test_writing_in_place_changes_nothing() -> None:
    w = sm.asarray([1.0, 2.0, 3.0])
    for take in (torch.from_dlpack, torch.utils.dlpack.from_dlpack, torch.asarray, torch.as_tensor, torch.tensor):
        assert take(w).mul_(10).tolist() == [10.0, 20.0, 30.0]
        assert w.tolist() == [1.0, 2.0, 3.0]
    assert torch.from_dlpack(w, copy=False).data_ptr() == w.numpy().ctypes.data


@pytest.mark.parametrize("zipped", [True, False])
def test_a_checkpoint_of_pytorch_is_named_as_one(zipped: bool, tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    torch.save(torch.nn.Linear(2, 3).state_dict(), path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(ParseError, match=r"net.pt is a PyTorch file(.|\n)*load_state_dict\(torch.load"):
        sm.load(sm.nn.Linear(2, 3), path)
