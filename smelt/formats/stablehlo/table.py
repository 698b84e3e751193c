"""All operations that are read, by name."""

from __future__ import annotations

from typing import Final

from smelt.formats.stablehlo import (
    broadcast,
    calls,
    complexes,
    control,
    devices,
    draws,
    dynamic,
    elementwise,
    folds,
    indexing,
    movement,
    norms,
    products,
    sorts,
    special,
    transforms,
    windows,
)
from smelt.formats.stablehlo.rows import Row

ROWS: Final[dict[str, Row]] = {
    **elementwise.ROWS,
    **complexes.ROWS,
    **movement.ROWS,
    **products.ROWS,
    **folds.ROWS,
    **indexing.ROWS,
    **sorts.ROWS,
    **windows.ROWS,
    **special.ROWS,
    **broadcast.ROWS,
    **devices.ROWS,
    **draws.ROWS,
    **transforms.ROWS,
    **norms.ROWS,
    **calls.ROWS,
    **control.ROWS,
    **dynamic.ROWS,
}
