"""How fast a machine is: what is assumed, and what was measured and kept."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from smelt.config import configure
from smelt.cost.rates import Rates, _key, assumed, known, remember, stored
from smelt.diskcache import disk_cache
from tests.profiles import AMX, AVX2, AVX512, NEON

MEASURED = Rates(*(float(k) for k in range(1, 1 + len(Rates._fields))))


def _write(data: bytes) -> None:
    cache = disk_cache()
    assert cache is not None
    cache.store_bytes("rates", _key(NEON), data)


def test_every_machine_has_figures_before_anybody_measures() -> None:
    for machine in (AVX512, AMX, AVX2, NEON):
        rates = assumed(machine)
        assert all(figure > 0 for name, figure in rates._asdict().items() if name != "words")
        assert rates.memory < rates.second
    assert assumed(NEON).words == 0 < assumed(AVX512).words < assumed(AMX).words


def test_what_was_measured_is_known_on_that_machine_only(tmp_path: Path) -> None:
    with configure(cache_dir=tmp_path / "cache", disk_cache=True):
        assert stored(NEON) is None
        assert known(NEON) == assumed(NEON)
        assert remember(NEON, MEASURED)
        assert stored(NEON) == known(NEON) == MEASURED
        assert stored(AVX2) is None
        for other in (NEON._replace(cores=3), NEON._replace(name="another"), NEON._replace(features=frozenset())):
            assert stored(other) is None


def test_without_a_cache_nothing_is_kept(tmp_path: Path) -> None:
    with configure(disk_cache=False):
        assert not remember(NEON, MEASURED)
        assert known(NEON) == assumed(NEON)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        json.dumps({"memory": 1.0}).encode(),
        json.dumps(MEASURED._asdict() | {"more": 1.0}).encode(),
        *(
            json.dumps(MEASURED._asdict() | {"memory": wrong}).encode()
            for wrong in (math.nan, math.inf, 0, -1.0, 1e300, "10", None, True, [1.0], {})
        ),
        json.dumps(MEASURED._asdict() | {"memory": 10**400}).encode(),
    ],
)
def test_figures_that_no_machine_has_are_not_believed(tmp_path: Path, data: bytes) -> None:
    with configure(cache_dir=tmp_path / "cache", disk_cache=True):
        _write(data)
        assert stored(NEON) is None
        assert known(NEON) == assumed(NEON)


def test_a_damaged_entry_reads_as_none(tmp_path: Path) -> None:
    with configure(cache_dir=tmp_path / "cache", disk_cache=True):
        remember(NEON, MEASURED)
        path = tmp_path / "cache" / "rates" / _key(NEON)
        data = bytearray(path.read_bytes())
        data[5] ^= 1
        path.write_bytes(data)
        with pytest.warns(UserWarning, match="could not be trusted"):
            assert known(NEON) == assumed(NEON)


def test_choices_do_not_depend_on_what_was_measured(tmp_path: Path) -> None:
    from smelt.kernel import parse_region
    from smelt.schedule.default import choose
    from tests.cost.test_kernel import _copy

    region = parse_region(_copy(1 << 20))
    with configure(cache_dir=tmp_path / "cache", disk_cache=True):
        before = choose(region, NEON)
        remember(NEON, MEASURED)
        assert choose(region, NEON) == before
