"""Checkpoints: a run that was killed anywhere goes on as if nothing had happened."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smelt as sm
from smelt.errors import ArgumentError, ParseError, ShapeError
from smelt.formats import write_whole
from smelt.formats.safetensors import encoded
from smelt.train import Checkpoint
from tests.conftest import ROOT
from tests.turns import TEST_ALL

PROGRAM = Path(__file__).parent / "run.py"


def start(folder: Path, steps: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(PROGRAM), str(folder), str(steps)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def finish(folder: Path, steps: int) -> list[int]:
    """Run to the end; the steps that it said."""
    with start(folder, steps) as child:
        said = child.communicate(timeout=300)[0]
    assert child.returncode == 0
    return [int(line) for line in said.split()]


def kill_after(folder: Path, steps: int, last: int) -> None:
    """Run, and kill it as soon as it says that a step is done: it is in the middle of the next one then."""
    with start(folder, steps) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if int(line) == last:
                child.send_signal(signal.SIGKILL)
                break
        child.wait(300)


STEPS = 32  # an epoch has 15


def test_a_killed_run_goes_on_bit_for_bit(tmp_path: Path) -> None:
    random = np.random.default_rng()  # anywhere: the place is in the message if it fails
    assert finish(tmp_path / "whole", STEPS) == list(range(1, STEPS + 1))
    whole = sm.load(tmp_path / "whole" / "end.safetensors")
    for attempt in range(5 if TEST_ALL else 1):
        places = sorted(random.choice(STEPS - 2, 2, replace=False) + 1)
        folder = tmp_path / str(attempt)
        for place in places:
            kill_after(folder, STEPS, int(place))
        said = finish(folder, STEPS)
        assert said[0] >= places[-1], f"killed after {places}"
        found = sm.load(folder / "end.safetensors")
        assert found.keys() == whole.keys()
        for name, tensor in found.items():
            assert tensor.numpy().tobytes() == whole[name].numpy().tobytes(), f"{name}, killed after {places}"
        assert not list(folder.glob(".*")), "temporary files are cleared away"


def test_random_numbers_go_on(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    sm.random.seed(5)
    sm.random.uniform((3,))
    checkpoint.save(1, {})
    expected = sm.random.uniform((3,)).tolist()
    sm.random.seed(6)
    checkpoint.restore({})
    assert sm.random.uniform((3,)).tolist() == expected


def test_the_latest_are_kept(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "new" / "folder", keep=2)
    assert checkpoint.steps() == []
    for step in (5, 10, 15, 20):
        checkpoint.save(step, {"x": sm.full((2,), step)}, note=[step])
    assert checkpoint.steps() == [15, 20]
    step, found, notes = checkpoint.restore({"x": sm.zeros(2, dtype=sm.int64)})
    assert (step, found["x"].tolist(), notes) == (20, [20, 20], {"note": [20]})
    assert checkpoint.load(15, {"x": sm.zeros(2, dtype=sm.int64)}).tree["x"].tolist() == [15, 15]


def saved(folder: Path) -> Checkpoint:
    checkpoint = Checkpoint(folder)
    for step in (1, 2):
        checkpoint.save(step, {"x": sm.full((3,), float(step))}, best=0.5)
    return checkpoint


@pytest.mark.parametrize("damage", ["empty", "half", "one bit", "more", "other file"])
def test_a_damaged_file_is_refused_and_the_one_before_is_used(damage: str, tmp_path: Path) -> None:
    checkpoint = saved(tmp_path)
    path = checkpoint.path(2)
    data = path.read_bytes()
    changed = bytearray(data)
    changed[-1] ^= 1
    sm.save({"x": sm.zeros(3)}, tmp_path / "other")
    new = {
        "empty": b"",
        "half": data[: len(data) // 2],
        "one bit": bytes(changed),
        "more": data + b"\0",
        "other file": (tmp_path / "other").read_bytes(),
    }[damage]
    path.write_bytes(new)
    like = {"x": sm.zeros(3)}
    with pytest.raises(ParseError):
        checkpoint.load(2, like)
    with pytest.warns(UserWarning, match="step-0000000002.safetensors is damaged"):
        step, tree, _ = checkpoint.restore(like)
    assert (step, tree["x"].tolist()) == (1, [1.0] * 3)


@given(st.data())
def test_no_changed_byte_goes_unnoticed(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    checkpoint = saved(tmp_path_factory.getbasetemp() / "bytes")
    path = checkpoint.path(2)
    whole = bytearray(path.read_bytes())
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole)
    with pytest.raises(ParseError):
        checkpoint.load(2, {"x": sm.zeros(3)})


GOOD: dict[str, Any] = {"step": 2, "loader": None, "random": [1, 2, 3], "notes": {}}
FORGED: dict[str, Any] = {
    "no object": [1, 2],
    "number": 7,
    "missing": {"step": 2},
    "more": {**GOOD, "more": 1},
    "step text": {**GOOD, "step": "2"},
    "step bool": {**GOOD, "step": True},
    "step float": {**GOOD, "step": 2.0},
    "step negative": {**GOOD, "step": -1},
    "step huge": {**GOOD, "step": 10**30},
    "notes pairs": {**GOOD, "notes": [["a", 1]]},
    "notes text": {**GOOD, "notes": ""},
    "loader list": {**GOOD, "loader": [1]},
    "loader text": {**GOOD, "loader": "epoch"},
    "random text": {**GOOD, "random": "123"},
    "random bool": {**GOOD, "random": [True, 2, 3]},
    "random short": {**GOOD, "random": [1, 2]},
    "random negative": {**GOOD, "random": [1, 2, -3]},
    "random huge": {**GOOD, "random": [1, 2, 2**32]},
}


def forge(path: Path, facts: Any) -> None:
    """A file whose checksum is right, made by somebody else."""
    arrays = {"x": np.zeros(3, np.float32)}
    header, parts = encoded(arrays, {"smelt.checkpoint": json.dumps(facts), "smelt.sha256": "0" * 64})
    digest = hashlib.sha256(header + b"".join(part.tobytes() for part in parts)).hexdigest()
    write_whole(path, [header.replace(b"0" * 64, digest.encode()), *parts])


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_checkpoint_is_refused_whatever_its_checksum_says(name: str, tmp_path: Path) -> None:
    checkpoint, like = Checkpoint(tmp_path), {"x": sm.zeros(3)}
    forge(checkpoint.path(2), GOOD)
    assert checkpoint.load(2, like).step == 2
    before = sm.runtime.current().random.get()
    forge(checkpoint.path(2), FORGED[name])
    with pytest.raises(ParseError, match="no checkpoint of smelt's"):
        checkpoint.load(2, like, loader=sm.data.DataLoader([1, 2, 3]))
    assert sm.runtime.current().random.get() == before


@pytest.mark.filterwarnings("ignore:.*is damaged")
def test_if_all_are_damaged_nothing_begins_anew_by_itself(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path)
    for step in checkpoint.steps():
        checkpoint.path(step).write_bytes(b"")
    with pytest.raises(ParseError, match="none of 2 checkpoints"):
        checkpoint.restore({"x": sm.zeros(3)})


LOADER = sm.data.DataLoader([1, 2, 3])
MISTAKES: dict[str, tuple[Any, type[Exception], str]] = {
    "keep": (lambda c: Checkpoint("x", keep=0), ArgumentError, "keep is 0"),
    "step": (lambda c: c.save(-1, {}), ArgumentError, "step is -1"),
    "step type": (lambda c: c.save(1.5, {}), ArgumentError, "must be an integer"),
    "note": (lambda c: c.save(3, {}, note={1, 2}), ArgumentError, "JSON"),
    "leaf": (lambda c: c.save(3, {"x": 1}), ArgumentError, "x is of type int"),
    "names": (lambda c: c.restore({"y": sm.zeros(3)}), ArgumentError, "missing in the file: y"),
    "shape": (lambda c: c.restore({"x": sm.zeros(4)}), ShapeError, "x has shape (3,)"),
    "loader": (lambda c: c.restore({"x": sm.zeros(3)}, loader=LOADER), ArgumentError, "no state of a loader"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, tmp_path: Path) -> None:
    call, error, text = MISTAKES[name]
    checkpoint = saved(tmp_path)
    with pytest.raises(error) as caught:
        call(checkpoint)
    assert text in str(caught.value)
    assert checkpoint.steps() == [1, 2]
