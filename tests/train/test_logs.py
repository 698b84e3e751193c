"""What a run tells: bars, logs, pictures."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError, ShapeError
from smelt.train.events import crc32c
from smelt.train.progress import Progress
from tests.formats.test_png import decoded


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


# --- bars


def test_a_bar_shows_share_rate_time_left_and_metrics() -> None:
    bar: Progress[Any] = Progress(total=200, label="epoch 1", stream=Terminal())
    bar.done = 50
    bar.show(loss=sm.asarray(0.25), note="warm")
    line = bar.line(10.0)
    assert line.startswith("epoch 1   25%  |███████▌  ")
    for part in ("50/200", "5.0/s", "[00:10 < 00:30]", "loss 0.25", "note warm"):
        assert part in line
    narrow = bar.line(10.0, 85)
    assert len(narrow) == 85
    assert narrow.endswith("loss 0.25  note warm")


@pytest.mark.parametrize(
    ("done", "seconds", "text"),
    [(0, 0.0, "0.0/s"), (1, 4.0, "4.0 s each"), (4000, 2.0, "2000/s"), (1, 7322.0, "[2:02:02")],
)
def test_rates_and_times_read_well(done: int, seconds: float, text: str) -> None:
    bar: Progress[Any] = Progress(total=None, stream=Terminal())
    bar.done = done
    assert text in bar.line(seconds)


def test_what_was_done_before_is_no_speed() -> None:
    bar: Progress[Any] = Progress(total=100, start=90, stream=Terminal())
    bar.done = 95
    assert "1.0/s" in bar.line(5.0)
    assert "95/100" in bar.line(5.0)


def test_a_loop_with_a_bar() -> None:
    stream = Terminal()
    assert list(Progress(range(3), stream=stream)) == [0, 1, 2]
    assert "100%" in stream.getvalue()
    assert stream.getvalue().endswith("\n")


def test_nothing_is_written_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    assert list(Progress(range(3), stream=stream)) == [0, 1, 2]
    with Progress(total=3) as bar:
        bar.advance(loss=1.0)
    assert stream.getvalue() == ""
    assert capsys.readouterr() == ("", "")


# --- logs


def test_lines_of_json(tmp_path: Path) -> None:
    for step in (1, 2):  # a run that goes on adds to its file
        with sm.train.JSONLogger(tmp_path / "log") as log:
            log.log(step, loss=sm.asarray(0.5), count=np.int64(3), wrong=float("nan"), big=10**17 + 1)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert lines == [{"step": s, "loss": 0.5, "count": 3.0, "wrong": None, "big": 10**17 + 1} for s in (1, 2)]


def test_the_checksum_is_the_known_one() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA


def records(data: bytes) -> list[bytes]:
    """The data of records, whose checksums are checked."""
    found = []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        body = data[12 : 12 + length]
        for part, mask in ((data[:8], data[8:12]), (body, data[12 + length : 16 + length])):
            rotated = (struct.unpack("<I", mask)[0] - 0xA282EAD8) & 0xFFFFFFFF
            assert (rotated >> 17 | rotated << 15) & 0xFFFFFFFF == crc32c(part)
        found.append(body)
        data = data[16 + length :]
    return found


def fields(data: bytes) -> dict[int, Any]:
    """A protocol buffer: the values of its fields, by number."""

    def varint() -> int:
        nonlocal data
        value = shift = 0
        while True:
            byte, data = data[0], data[1:]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    found: dict[int, Any] = {}
    while data:
        key = varint()
        number, kind = key >> 3, key & 7
        if kind == 0:
            found[number] = varint()
            continue
        size = {1: 8, 5: 4}.get(kind) or varint()
        value, data = data[:size], data[size:]
        found[number] = struct.unpack({1: "<d", 5: "<f"}[kind], value)[0] if kind != 2 else value
    return found


def test_events_for_tensorboard(tmp_path: Path) -> None:
    with sm.train.TensorBoardLogger(tmp_path / "run") as log:
        log.log(300, **{"loss/train": sm.asarray(0.5)})
        log.log(301, rate=1e300)
    (path,) = (tmp_path / "run").iterdir()
    first, second, third = [fields(record) for record in records(path.read_bytes())]
    assert first[3] == b"brain.Event:2"
    assert second[2] == 300
    assert second[1] >= first[1] > 1.7e9
    assert fields(fields(second[5])[1]) == {1: b"loss/train", 2: 0.5}
    assert fields(fields(third[5])[1])[2] == float("inf")


# --- pictures


def test_curves_have_their_colors(tmp_path: Path) -> None:
    sm.train.plot(tmp_path / "a.png", {"train": [3.0, 2.0, float("nan"), 1.0], "test": ([0, 3], [2.5, 2.5])}, "Loss")
    picture = decoded(tmp_path / "a.png").reshape(-1, 3)
    assert picture.shape[0] == 800 * 500
    for color in ((255, 255, 255), (31, 98, 168), (214, 93, 14)):
        assert (picture == color).all(1).sum() > 100


@pytest.mark.parametrize("curve", [[1.0], [5.0, 5.0], [0.0, 0.0], [1e-30, 1e30], list(range(5000)), [-1.0, 1.0]])
@pytest.mark.parametrize("logarithmic", [False, True])
def test_any_curve_can_be_drawn(curve: list[float], logarithmic: bool, tmp_path: Path) -> None:
    if logarithmic and max(curve) <= 0:
        with pytest.raises(ArgumentError, match="no finite value"):
            sm.train.plot(tmp_path / "a.png", {"x": curve}, logarithmic=True)
        return
    sm.train.plot(tmp_path / "a.png", {"x": curve}, size=(300, 200), logarithmic=logarithmic)
    assert decoded(tmp_path / "a.png").shape == (200, 300, 3)


def test_images_stand_in_rows(tmp_path: Path) -> None:
    images = np.arange(5 * 4, dtype=np.uint8).reshape(5, 2, 2)
    sm.train.image_grid(tmp_path / "a.png", images, columns=3, scale=2)
    picture = decoded(tmp_path / "a.png")[:, :, 0]
    assert picture.shape == (8, 12)
    assert picture[::2, ::2][:2, :6].tolist() == [[0, 1, 4, 5, 8, 9], [2, 3, 6, 7, 10, 11]]
    assert picture[4:, 8:].tolist() == [[255] * 4] * 4
    sm.train.image_grid(tmp_path / "gaps.png", images, columns=3, gap=1)
    assert decoded(tmp_path / "gaps.png")[:2, :, 0].tolist() == [
        [0, 1, 255, 4, 5, 255, 8, 9],
        [2, 3, 255, 6, 7, 255, 10, 11],
    ]
    assert decoded(tmp_path / "gaps.png").shape[:2] == (5, 8)
    sm.train.image_grid(tmp_path / "b.png", sm.zeros(4, 3, 2, 2))
    assert decoded(tmp_path / "b.png").shape == (4, 4, 3)


def logged(folder: Path, value: Any) -> None:
    with sm.train.JSONLogger(folder / "log") as logger:
        logger.log(1, loss=value)


MISTAKES: dict[str, tuple[Any, type[Exception], str]] = {
    "total": (lambda p: sm.train.Progress(total=-1), ArgumentError, "total is -1"),
    "no loop": (lambda p: list(sm.train.Progress(total=1)), ArgumentError, "nothing to go through"),
    "text": (lambda p: logged(p, "a"), ArgumentError, "loss is no number"),
    "many": (lambda p: logged(p, sm.zeros(2)), ArgumentError, "the tensor has shape (2,)"),
    "nothing": (lambda p: sm.train.plot(p / "a", {}), ArgumentError, "no finite value"),
    "small": (lambda p: sm.train.plot(p / "a", {"x": [1]}, size=(10, 10)), ArgumentError, "200 by 120"),
    "lengths": (lambda p: sm.train.plot(p / "a", {"x": ([1], [1, 2])}), ShapeError, "1 steps and 2 values"),
    "images": (lambda p: sm.train.image_grid(p / "a", np.zeros((2, 2))), ShapeError, "image_grid"),
    "gap": (lambda p: sm.train.image_grid(p / "a", np.zeros((1, 2, 2)), gap=-1), ArgumentError, "negative"),
    "columns": (lambda p: sm.train.image_grid(p / "a", np.zeros((1, 2, 2)), columns=0), ArgumentError, "at least 1"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, tmp_path: Path) -> None:
    call, error, text = MISTAKES[name]
    with pytest.raises(error) as caught:
        call(tmp_path)
    assert text in str(caught.value)
