"""A white sheet for lines and small letters. Drawn three times as fine as it is looked at, so that edges are smooth."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Color = tuple[int, int, int]

_FINE: Final = 3
_DOT: Final = 4  # fine dots of each dot of a letter
_ADVANCE: Final = 6  # dots from letter to letter: five, and one between them

# Seven rows of each letter, one digit of base 32 per row: its five bits are the dots.
_LETTERS: Final = {
    **{"0": "EHJLPHE", "1": "4C4444E", "2": "EH1248V", "3": "V2421HE", "4": "26AIV22", "5": "VGU11HE", "6": "68GUHHE"},
    **{"7": "V124888", "8": "EHHEHHE", "9": "EHHF12C", ".": "00000CC", ",": "0000C48", "-": "000E000", "+": "044V440"},
    **{"_": "000000V", "/": "01248G0", ":": "0CC0CC0", "%": "OP248J3", "=": "00V0V00", "(": "2488842", ")": "8422248"},
    **{"a": "00E1FHF", "b": "GGMPHHU", "c": "00EGGHE", "d": "11DJHHF", "e": "00EHVGE", "f": "698S888", "g": "0FHHF1E"},
    **{"h": "GGMPHHH", "i": "40C444E", "j": "20622IC", "k": "GGIKOKI", "l": "C44444E", "m": "00QLLHH", "n": "00MPHHH"},
    **{"o": "00EHHHE", "p": "00UHUGG", "q": "00DJF11", "r": "00MPGGG", "s": "00EGE1U", "t": "88S8896", "u": "00HHHJD"},
    **{"v": "00HHHA4", "w": "00HHLLA", "x": "00HA4AH", "y": "00HHF1E", "z": "00V248V", " ": "0000000"},
}
_UNKNOWN: Final = "VHHHHHV"


def text_width(text: str) -> float:
    """The width of a text in dots of the picture."""
    return len(text) * _ADVANCE * _DOT / _FINE


class Canvas:
    """A sheet of so many dots. Places are counted from the top left corner, and may be fractions."""

    def __init__(self, width: int, height: int) -> None:
        self._dots = np.full((height * _FINE, width * _FINE, 3), 255, np.uint8)

    def line(self, points: Sequence[tuple[float, float]], color: Color, thickness: float) -> None:
        """Draw through points; what lies outside is left out."""
        reach = max(1, round(thickness * _FINE))
        at = np.asarray(points, np.float64) * _FINE
        pieces = [_between(a, b) for a, b in itertools.pairwise(at)] or [at]
        centers = np.unique(np.round(np.concatenate(pieces)).astype(np.int64), axis=0)
        offsets = np.arange(reach) - reach // 2
        dx, dy = (grid.reshape(-1) for grid in np.meshgrid(offsets, offsets))
        round_brush = (dx - (reach % 2 - 1) / 2) ** 2 + (dy - (reach % 2 - 1) / 2) ** 2 <= (reach / 2) ** 2 + 0.3
        xs = (centers[:, :1] + dx[round_brush]).reshape(-1)
        ys = (centers[:, 1:] + dy[round_brush]).reshape(-1)
        inside = (xs >= 0) & (ys >= 0) & (xs < self._dots.shape[1]) & (ys < self._dots.shape[0])
        self._dots[ys[inside], xs[inside]] = color

    def text(self, x: float, y: float, text: str, color: Color) -> None:
        """Write a text whose upper left corner is here. Capitals look like small letters."""
        left, top = round(x * _FINE), round(y * _FINE)
        for number, letter in enumerate(text.lower()):
            rows = [int(row, 32) for row in _LETTERS.get(letter, _UNKNOWN)]
            bits = np.asarray([[row >> 4 - k & 1 for k in range(5)] for row in rows], np.bool_)
            ys, xs = np.nonzero(bits.repeat(_DOT, 0).repeat(_DOT, 1))
            ys, xs = ys + top, xs + left + number * _ADVANCE * _DOT
            inside = (xs >= 0) & (ys >= 0) & (xs < self._dots.shape[1]) & (ys < self._dots.shape[0])
            self._dots[ys[inside], xs[inside]] = color

    def pixels(self) -> NDArray[np.uint8]:
        """The picture, of shape (height, width, 3)."""
        height, width = self._dots.shape[0] // _FINE, self._dots.shape[1] // _FINE
        fine = self._dots.reshape(height, _FINE, width, _FINE, 3).astype(np.float32)
        picture: NDArray[np.uint8] = fine.mean((1, 3)).round().astype(np.uint8)
        return picture


def _between(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Points from one to another, less than a fine dot apart."""
    count = max(2, math.ceil(float(np.abs(b - a).max())) + 1)
    points: NDArray[Any] = a + (b - a) * np.linspace(0, 1, count)[:, None]
    return points
