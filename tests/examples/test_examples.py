"""The examples run as a user runs them, and reach the results that they state."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import smelt as sm
from smelt.errors import MissingFileError

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "examples").glob("*.py"))


class Run(NamedTuple):
    """What an example printed, and the files that it wrote."""

    out: str
    folder: Path

    def number(self, pattern: str) -> float:
        """The number that is in the place of the pattern's group."""
        found = re.search(pattern, self.out)
        assert found is not None, self.out
        return float(found[1])

    def picture(self, name: str) -> None:
        """Check that there is a picture."""
        assert (self.folder / name).read_bytes()[1:4] == b"PNG"


def run(folder: Path, name: str, *words: str) -> Run:
    """Run an example in a folder; nothing but its results may go to stdout."""
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    assert "%|" not in done.stdout  # the bar is for stderr
    return Run(done.stdout, folder)


# --- always: the cheapest ones, in their quick forms


def test_digits_quick(tmp_path: Path) -> None:
    done = run(tmp_path, "digits_mlp", "--quick", "--save", "net.safetensors")
    assert done.number(r"test accuracy: ([\d.]+)") > 0.8
    assert done.out.endswith("This was a quick trial: without --quick, at least 0.97 are right.\n")
    assert (tmp_path / "net.safetensors").is_file()


def test_karate_quick(tmp_path: Path) -> None:
    assert run(tmp_path, "karate_gcn", "--quick").number(r"right side: (\d+) of 34") >= 20


@pytest.mark.by_turns(3)
def test_a_server_and_its_client_quick(tmp_path: Path) -> None:
    done = run(tmp_path, "serve_and_call", "--quick")
    assert "by the schema: city is str, is_capital is bool\n" in done.out
    assert done.out.count("Say a word that begins with") == 4


def test_lora_quick(tmp_path: Path) -> None:
    done = run(tmp_path, "lora_text", "--quick")
    assert done.number(r"([\d.]+) at last") < done.number(r"([\d.]+) at first")


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_files_are_short_and_say_what_they_teach(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert 40 <= len(text.splitlines()) <= 160
    said = ast.get_docstring(ast.parse(text))
    assert said is not None
    assert "What one learns here:" in said
    assert f"python examples/{file.name}" in said
    for option in ("--quick", "--seed"):
        assert f'"{option}"' in text
    assert "This was a quick trial: without --quick, " in text
    assert f"[`{file.name}`]" in (ROOT / "docs" / "guide" / "examples.md").read_text(encoding="utf-8")


# --- all: the results that the files state


@pytest.mark.slow
def test_digits(tmp_path: Path) -> None:
    done = run(tmp_path, "digits_mlp")
    assert done.number(r"test accuracy: ([\d.]+)") >= 0.97
    assert len(done.out.splitlines()) == 13  # with the matrix


@pytest.mark.slow
def test_lenet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # one of the places of data is relative
    try:
        sm.data.fashion_mnist("test")
    except MissingFileError as error:
        pytest.skip(f"Fashion-MNIST is not here: make fashion-mnist gets it. {error}")
    assert run(ROOT, "lenet_fashion").number(r"test accuracy: ([\d.]+)") >= 0.88


def test_lenet_without_data_says_where_to_get_it(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "lenet_fashion.py"), "--data", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "apt install dataset-fashion-mnist" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["char_gpt", "lstm_text"])
def test_text(name: str, tmp_path: Path) -> None:
    done = run(tmp_path, name)
    assert done.number(r"better by (-?[\d.]+)") >= 0.5
    assert len(done.out.split("-" * 60)[0]) >= 400  # what it wrote


@pytest.mark.slow
@pytest.mark.parametrize("name", ["char_gpt", "lstm_text"])
def test_another_text(name: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("The quick brown fox jumps over the lazy dog. " * 1000, encoding="utf-8")
    assert run(tmp_path, name, "--quick", "--text", "text.txt").number(r"validation loss: ([\d.]+)") < 3.5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["char_gpt", "lstm_text"])
def test_a_text_that_is_too_short_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("short", encoding="utf-8")
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), "--text", "text.txt"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 2
    assert "the text has 5 characters" in done.stderr


@pytest.mark.slow
def test_karate(tmp_path: Path) -> None:
    assert run(tmp_path, "karate_gcn").number(r"right side: (\d+) of 34") >= 30


@pytest.mark.slow
def test_autoencoder(tmp_path: Path) -> None:
    done = run(tmp_path, "autoencoder")
    assert done.number(r"share: ([\d.]+)") <= 0.5
    done.picture("autoencoder.png")


@pytest.mark.slow
def test_diffusion(tmp_path: Path) -> None:
    done = run(tmp_path, "diffusion_digits")
    assert done.number(r"wanted kind: ([\d.]+)") >= 0.95
    assert done.number(r"mean ([\d.]+)") <= 0.1
    assert done.number(r"standard deviation ([\d.]+)") <= 0.1
    assert done.number(r"nearest real digit: drawn ([\d.]+)") >= 0.5 * done.number(
        r"nearest real digit: .* real ([\d.]+)"
    )
    done.picture("diffusion.png")
