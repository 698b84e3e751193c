"""Answers that come with smelt: for the same family only, and the user's own words win."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from smelt.bench.shipping import worth_shipping
from smelt.cli.doctor import report
from smelt.compiler import MEASURED_AS
from smelt.config import configure
from smelt.device.cpu import CPU
from smelt.search import Tuned, shipped
from smelt.search import tuned as module
from smelt.search.climb import Climb, Tried
from smelt.search.contender import Contender, Outcome, Timed, Verdict
from smelt.search.exchange import forget
from smelt.search.file import METHOD
from smelt.search.record import Place, Record, write
from smelt.tuning.keeping import Keeper
from smelt.tuning.outside import Live
from smelt.tuning.report import Row
from tests.search.test_transfer import asked, kernel, log, tuned


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "SHIPPED", str(tmp_path / "shipped"))
    with configure(cache_dir=tmp_path / "cache", disk_cache=True, data_dir=tmp_path / "data"):
        yield


def ship(*records: Record, family: str = "") -> None:
    folder = Path(module.SHIPPED)
    folder.mkdir(exist_ok=True)
    (folder / f"{family or Place.of(CPU()).family}.log").write_bytes(b"".join(map(write, records)))


def answer(record: Record) -> str:
    return f"{record.answer.schedule}{MEASURED_AS}{record.answer.source}"


def test_what_is_shipped_counts_like_the_users_own() -> None:
    record = tuned(kernel(32).region)
    elsewhere = record._replace(place=record.place._replace(toolchain="0" * 32))  # another compiler
    ship(tuned(kernel(24).region), elsewhere, tuned(kernel(48).region))
    assert kernel(32).form == "chosen"
    assert Tuned().ask(CPU(), record.question.digest) == answer(record)
    with configure(data_dir=""):
        assert Tuned().ask(CPU(), record.question.digest) == answer(record)
    with configure(tuned="off"):
        assert Tuned().ask(CPU(), record.question.digest) is None
    assert report()["tuned"]["shipped"] == 3


@pytest.mark.parametrize("field", ["device", "family", "cores", "threads"])
def test_other_places_get_nothing(field: str) -> None:
    record = tuned(kernel(32).region)
    value = getattr(record.place, field)
    other = record.place._replace(**{field: value + 1 if isinstance(value, int) else "0" * 32})
    ship(record._replace(place=other))
    assert Tuned().ask(CPU(), record.question.digest) is None
    assert report()["tuned"]["shipped"] == 0


@pytest.mark.parametrize(
    "changes", [{"state": "timed"}, {"evidence": {"ratio": 1.04}}, {"evidence": {"method": METHOD + 1}}]
)
def test_what_gains_too_little_or_is_not_confirmed_does_not_count(changes: dict[str, Any]) -> None:
    record = tuned(kernel(32).region)
    changes = {name: record.evidence._replace(**each) if name == "evidence" else each for name, each in changes.items()}
    ship(record._replace(**changes))
    assert Tuned().ask(CPU(), record.question.digest) is None


def test_damage_is_passed_over() -> None:
    record = tuned(kernel(32).region)
    folder = Path(module.SHIPPED)
    ship(record)
    path = next(folder.iterdir())
    line = path.read_bytes()
    for damaged in (
        line[:-9],
        b"\n" + line.replace(b"cpu", b"gpu"),
        b"\xff" * 900 + line,
        b'"digest":"' * 9,
        b"{}\n" * 9,
    ):
        path.write_bytes(damaged)
        assert Tuned().ask(CPU(), record.question.digest) is None
    path.write_bytes(b"rubbish\n" + line)
    assert Tuned().ask(CPU(), record.question.digest) == answer(record)


def test_same_bits_are_asked_for() -> None:
    record = tuned(kernel(32).region)
    ship(record._replace(answer=record.answer._replace(bits="sums")))
    with configure(tuned="same-bits"):
        assert Tuned().ask(CPU(), record.question.digest) is None
    assert Tuned().ask(CPU(), record.question.digest) is not None


def test_the_users_own_words_win() -> None:
    record, other = tuned(kernel(32).region), tuned(kernel(32).region, "rows: grain 2")
    ship(record)
    log().add([other])
    assert Tuned().ask(CPU(), record.question.digest) == answer(other)
    forget(log(), [other])
    assert Tuned().ask(CPU(), record.question.digest) == answer(record)
    forget(log(), [record])
    assert Tuned().ask(CPU(), record.question.digest) is None


def test_what_is_no_faster_here_is_not_used_again() -> None:
    text = kernel(32).region
    record, question = tuned(text), asked(text)
    ship(record)
    keeper = Keeper(0, Live())
    (seed,) = keeper.seeds(question)
    contender = Contender.of(seed, question.region, CPU())
    assert contender.digest == record.answer.source
    timed = Timed(0.97, 0.96, 0.98, 1e-3, 15)
    tried = Tried("rows", contender, 1.0, Outcome(contender.digest, "timed", "", Verdict(True, "", "same"), timed))
    keeper.keep(Row(question, Climb(contender, [tried]), 1.0))
    assert [one.state for one in log().load().records] == ["refused"]
    assert Tuned().ask(CPU(), record.question.digest) is None


def test_what_holds_in_two_runs_is_worth_shipping(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tuned(kernel(32).region), tuned(kernel(24).region)
    again = first._replace(run="another", evidence=first.evidence._replace(ratio=1.1))
    elsewhere = second._replace(place=second.place._replace(cores=99), run="another")
    records = [first, second, again, elsewhere]
    assert list(worth_shipping(records, first.place)) == [write(again)]
    assert not list(worth_shipping([*records, first._replace(state="forgotten")], first.place))
    assert not list(worth_shipping([first, again._replace(evidence=again.evidence._replace(ratio=1.04))], first.place))
    monkeypatch.setattr(shipped, "MOST_BYTES", 100)
    assert not list(worth_shipping(records, first.place))


def test_who_has_no_file_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.shipped() is None
    ship(family="0" * 32)
    found = module.shipped()
    assert found is not None and found.find("on", CPU(), "0" * 32) is None
