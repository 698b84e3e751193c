"""Models as folders: what Hugging Face's tools write, read without them.

A folder has `config.json`, tensors in `model.safetensors` or in shards that `model.safetensors.index.json` lists, and
beside them, if at all, what a tokenizer and chats need. Nothing of it is run, and nothing is unpickled.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NoReturn

from smelt.errors import MissingFileError, ParseError
from smelt.formats.checked_json import json_object
from smelt.formats.safetensors import Entry, SafeTensors
from smelt.formats.whole import PathLike
from smelt.tensor import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONFIG: Final = "config.json"
WHOLE: Final = "model.safetensors"
INDEX: Final = "model.safetensors.index.json"
LARGEST_TEXT: Final = 100_000_000  # bytes of a JSON file; the largest tokenizers have a third of it
LARGEST_TEMPLATE: Final = 1_000_000  # bytes
_MOST_SHARDS: Final = 1024
_OTHERS: Final = (".bin", ".bin.index.json", ".pt", ".pth", ".ckpt", ".h5", ".msgpack")  # weights that are not read


class Folder(Mapping[str, Tensor]):
    """The tensors of a model by name, each made when it is asked for; `config` says what kind of model it is.

    `tokenizer`, `tokenizer_config` and `generation_config` are read when they are first asked for, and are none if
    their files are not there; likewise the text `chat_template`.

    >>> import tempfile, pathlib
    >>> from smelt.formats import Folder
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "config.json").write_text('{"model_type": "llama"}')
    >>> sm.save({"lm_head.weight": sm.ones(2, 3)}, folder / "model.safetensors")
    >>> model = Folder(folder)
    >>> model.config["model_type"], list(model), model["lm_head.weight"].shape, model.tokenizer
    ('llama', ['lm_head.weight'], (2, 3), None)
    """

    def __init__(self, path: PathLike) -> None:
        self.path = os.fspath(path)
        if not os.path.isdir(self.path):
            raise MissingFileError(f"{self.path} is no folder", hint="Name the folder that has config.json.")
        config = self._object(CONFIG)
        if config is None:
            raise MissingFileError(
                f"{self.path} has no {CONFIG}", hint="Name the folder of a model, with all its files."
            )
        self.config: dict[str, Any] = config
        self._files = self._opened()  # by the names of tensors

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Dtypes and shapes of tensors by name, and where they lie in their files."""
        return {name: file.entries[name] for name, file in self._files.items()}

    @cached_property
    def tokenizer(self) -> dict[str, Any] | None:
        """What `tokenizer.json` says."""
        return self._object("tokenizer.json")

    @cached_property
    def tokenizer_config(self) -> dict[str, Any] | None:
        """What `tokenizer_config.json` says."""
        return self._object("tokenizer_config.json")

    @cached_property
    def generation_config(self) -> dict[str, Any] | None:
        """What `generation_config.json` says."""
        return self._object("generation_config.json")

    @cached_property
    def chat_template(self) -> str | None:
        """The text of `chat_template.jinja`, or what `tokenizer_config.json` has in its place."""
        data = self._bytes("chat_template.jinja", LARGEST_TEMPLATE)
        if data is not None:
            try:
                return data.decode("utf-8")
            except UnicodeDecodeError as error:
                self._refuse("chat_template.jinja", f"it is no text in UTF-8: {error}")
        found = (self.tokenizer_config or {}).get("chat_template")
        if isinstance(found, list):  # several by name
            named = [item for item in found if isinstance(item, dict) and item.get("name") == "default"]
            found = named[0].get("template") if named else None
        if found is not None and not isinstance(found, str):
            self._refuse("tokenizer_config.json", f"its chat_template is of type {type(found).__name__}")
        return found

    def array(self, name: str) -> NDArray[Any]:
        """A tensor as a read-only NumPy array over its mapped file."""
        return self._files[name].array(name)

    def __getitem__(self, name: str) -> Tensor:
        return self._files[name][name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __repr__(self) -> str:
        return f"Folder({self.path!r}, {len(self)} tensors)"

    def _opened(self) -> dict[str, SafeTensors]:
        """The files of tensors, by the names of these."""
        if os.path.isfile(self._place(WHOLE)):
            file = SafeTensors(self._place(WHOLE))
            return dict.fromkeys(file.entries, file)
        index = self._object(INDEX)
        if index is not None:
            return self._shards(_checked_shards(self.path, index))
        others = sorted(name for name in os.listdir(self.path) if name.endswith(_OTHERS))
        if others:
            self._refuse(
                others[0],
                "weights in this form are not read, since a pickle can run anything",
                "Convert them to safetensors: with transformers at hand, AutoModel….from_pretrained(folder)"
                ".save_pretrained(folder, safe_serialization=True) writes model.safetensors.",
            )
        raise MissingFileError(f"{self.path} has neither {WHOLE} nor {INDEX}", hint="Was everything downloaded?")

    def _shards(self, places: Mapping[str, str]) -> dict[str, SafeTensors]:
        """The shards by the names of their tensors, each of which is in the one that the index says and no other."""
        found: dict[str, SafeTensors] = {}
        for shard in sorted(set(places.values())):
            if not os.path.isfile(self._place(shard)):
                raise MissingFileError(f"{self.path} has no {shard}", hint="Was everything downloaded?")
            file = SafeTensors(self._place(shard))
            for name in file.entries:
                if places.get(name) != shard:
                    self._refuse(shard, f"it has {name!r:.80}, which {INDEX} does not expect there")
                found[name] = file
        missing = next((name for name in places if name not in found), None)
        if missing is not None:
            self._refuse(places[missing], f"it does not have {missing!r:.80}, which {INDEX} expects there")
        return {name: found[name] for name in places}

    def _place(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _bytes(self, name: str, largest: int) -> bytes | None:
        """A file of the folder, if it is there."""
        if not os.path.isfile(self._place(name)):
            return None
        with open(self._place(name), "rb") as file:
            data = file.read(largest + 1)
        if len(data) > largest:
            self._refuse(name, f"it has more than {largest} bytes")
        return data

    def _object(self, name: str) -> dict[str, Any] | None:
        """A JSON file of the folder, if it is there."""
        data = self._bytes(name, LARGEST_TEXT)
        try:
            return None if data is None else json_object(data)
        except ValueError as error:
            self._refuse(name, f"it cannot be read: {error}")

    def _refuse(self, name: str, what: str, *hint: str) -> NoReturn:
        _refuse(self._place(name), what, *hint)


def _checked_shards(path: str, index: Mapping[str, Any]) -> dict[str, str]:
    """Files by the names of tensors. Their names must be plain, so that nothing outside the folder is opened."""
    places = index.get("weight_map")
    index_path = os.path.join(path, INDEX)
    if not isinstance(places, dict) or not all(isinstance(shard, str) for shard in places.values()):
        _refuse(index_path, "its weight_map must be names of files by names of tensors")
    shards = set(places.values())
    if len(shards) > _MOST_SHARDS:
        _refuse(index_path, f"it names {len(shards)} files; the most are {_MOST_SHARDS}")
    for shard in shards:
        if not shard.endswith(".safetensors") or any(character in shard for character in "/\\\0"):
            _refuse(index_path, f"it names the file {shard!r:.80}; they are plain names that end in .safetensors")
    return places


def _refuse(path: str, what: str, hint: str = "Was it cut off, or changed?") -> NoReturn:
    folder, name = os.path.split(path)
    raise ParseError(f"{os.path.basename(folder)}/{name}: {what}", rule="it is no model that smelt reads.", hint=hint)
