"""Files of other kinds, told by their first bytes: named in errors, never opened."""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from smelt.errors import ParseError

_TORCH: Final = (
    "smelt never unpickles, since a pickle can run anything.\n"
    "With PyTorch at hand, give the tensors over: "
    "model.load_state_dict(torch.load(path, weights_only=True)), then keep them with smelt.save."
)
_NUMPY: Final = "Read it with numpy.load, and give the arrays over: model.load_state_dict(numpy.load(path))."


class _Kind(NamedTuple):
    """What files begin with, what else stands among their first bytes, what they are, and what to do with them."""

    begin: bytes
    inside: bytes
    name: str
    hint: str


_KINDS: Final = (
    _Kind(b"PK\x03\x04", b"/data.pkl", "a PyTorch file (.pt, .pth, .bin: a pickle in a ZIP archive)", _TORCH),
    _Kind(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", b"", "a PyTorch file of the old form (a pickle)", _TORCH),
    _Kind(b"PK\x03\x04", b".npy", "a NumPy archive (.npz)", _NUMPY),
    _Kind(b"PK\x03\x04", b"", "a ZIP archive", "Is there a safetensors file inside?"),
    _Kind(b"\x93NUMPY", b"", "a NumPy array (.npy)", "Read it with numpy.load."),
    _Kind(b"\x80", b"", "a pickle", _TORCH),
    _Kind(b"\x89HDF\r\n", b"", "an HDF5 file (.h5, .keras)", "Read it with h5py, and give the arrays over by name."),
    _Kind(b"GGUF", b"", "a GGUF file", "Read it with smelt.formats.Gguf(path)."),
    _Kind(
        b"version https://git-lfs",
        b"",
        "a pointer of Git LFS: the file itself has not been downloaded",
        "Get it with: git lfs pull",
    ),
)


def refuse_known(first: bytes, path: str) -> None:
    """Raise if the first bytes of a file are those of a known kind."""
    for kind in _KINDS:
        if first.startswith(kind.begin) and kind.inside in first:
            name = os.path.basename(path)
            raise ParseError(f"{name} is {kind.name}", rule="smelt reads safetensors files.", hint=kind.hint)
