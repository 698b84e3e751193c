"""What the log promises: what was added is there, whatever else is."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from smelt.errors import ArgumentError, SmeltError
from smelt.search import log as log_module
from smelt.search.exchange import counting, export, forget, known, take
from smelt.search.file import LINE, open_log, signed
from smelt.search.log import Log
from smelt.search.record import Answer, Evidence, Question, Record, read, write
from smelt.search.selftest.database import fuzz, kill, writers
from smelt.search.selftest.samples import sample
from tests.turns import TEST_ALL

FORGOTTEN = "forgotten"


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "data" / "tuned")


def in_force(log: Log) -> list[Record]:
    return [one.record for one in known(log.load().records) if one.record.state == "confirmed"]


def answered(number: int, schedule: str, state: str = "confirmed", **changes: object) -> Record:
    record = sample(number, state)
    return record._replace(answer=record.answer._replace(schedule=schedule), **changes)  # type: ignore[arg-type]


# --- lines


def test_a_record_comes_back_from_its_line() -> None:
    line = write(sample(3))
    assert line.endswith(b"\n") and b"\n" not in line[:-1]
    assert read(line[:-1]) == sample(3)


@pytest.mark.parametrize(
    "change", [lambda x: x[:-1], lambda x: x[1:], lambda x: x.replace(b"exp", b"log"), lambda x: b""]
)
def test_a_damaged_line_is_none(change: object) -> None:
    assert read(change(write(sample(3))[:-1])) == "damaged"  # type: ignore[operator]


@pytest.mark.parametrize(
    "record",
    [
        sample(1)._replace(state="adopted"),
        sample(1)._replace(seed=-1),
        sample(1)._replace(reason="\x1b[31m"),
        sample(1)._replace(evidence=Evidence(float("nan"))),
        sample(1)._replace(evidence=Evidence(1)),
        sample(1)._replace(question=Question.of("another")._replace(text="region")),
        sample(1)._replace(answer=Answer("split i0 (1000000000 reg)", "same", "0" * 32)),
        sample(1)._replace(answer=Answer("", "other", "0" * 32)),
        sample(1)._replace(answer=Answer("", "same", "../../source")),
        sample(1)._replace(version="1"),  # type: ignore[arg-type]
    ],
)
def test_a_line_that_this_code_does_not_write_is_foreign(record: Record) -> None:
    assert read(write(record)[:-1]) == "foreign"


def test_a_line_of_newer_code_is_told_apart_and_kept(log: Log) -> None:
    newer = write(sample(1)._replace(version=2))
    assert read(newer[:-1]) == "newer"
    log.add([sample(2)])
    with log.path.open("ab") as file:
        file.write(newer)
    log.compact()
    assert newer in log.path.read_bytes()
    assert in_force(log) == [sample(2)]


@pytest.mark.parametrize("body", [b"[" * 60_000, b"{}", b"[]", b"null", b"1" * 5000, b'{"version":NaN}', b"\xff"])
def test_anything_with_a_right_checksum_is_read(body: bytes) -> None:
    assert read(signed(body)) == "foreign"


def test_regions_that_differ_in_sizes_have_one_form() -> None:
    small, large = sample(5).question, sample(500).question
    assert (small.form, small.sizes, large.sizes) == (large.form, (7,), (502,))
    assert small.digest != large.digest
    other = Question.of(small.text.replace("exp", "log"))
    assert other.form != small.form
    text = "axis i0 in 0 .. 7\n%0: int32 = const 12\n%1: int32 = mul %0 %0\n"
    assert Question.of(text).form != Question.of(text.replace("12", "13")).form


# --- the file


def test_nothing_is_made_until_something_is_added(log: Log) -> None:
    assert log.load() == ([], {})
    assert open_log(log.root) is None
    assert not log.root.parent.exists()


def test_records_are_added_and_private(log: Log) -> None:
    before = os.umask(0)
    try:
        log.add([sample(1), sample(2)])
        log.add([sample(3)])
    finally:
        os.umask(before)
    assert log.load() == ([sample(1), sample(2), sample(3)], {})
    assert [stat.S_IMODE(path.stat().st_mode) for path in (log.root, log.path)] == [0o700, 0o600]


def test_a_file_or_folder_that_others_may_write_is_not_read(log: Log) -> None:
    log.add([sample(1)])
    for path, mode in ((log.path, 0o600), (log.root, 0o700)):
        path.chmod(0o777)
        assert log.load().records == []
        with pytest.raises(SmeltError, match="others may write"):
            log.add([sample(2)])
        path.chmod(mode)
    assert log.load().records == [sample(1)]


def test_links_and_pipes_are_not_followed(log: Log, tmp_path: Path) -> None:
    log.add([sample(1)])
    log.path.rename(tmp_path / "elsewhere")
    log.path.symlink_to(tmp_path / "elsewhere")
    assert log.load().records == []
    with pytest.raises(SmeltError, match="nothing can be kept"):
        log.add([sample(2)])
    log.path.unlink()
    os.mkfifo(log.path)
    assert log.load().records == []


def test_a_torn_line_costs_nothing_else(log: Log) -> None:
    log.add([sample(1), sample(2)])
    whole = log.path.read_bytes()
    log.path.write_bytes(whole[:-5])
    log.add([sample(3)])
    assert log.load() == ([sample(1), sample(3)], {"damaged": 1})


def test_a_long_line_and_a_large_file_are_bounded(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.add([sample(1)])
    with log.path.open("ab") as file:
        file.write(b"x" * (5 * LINE) + b"\n")
    assert log.add([sample(2), sample(3)._replace(reason="x" * LINE)]) == 1
    records, skipped = log.load()
    assert records == [sample(1), sample(2)]
    assert skipped["damaged"] > 0
    monkeypatch.setattr(log_module, "LIMIT", len(write(sample(1))))
    assert log.load().records == [sample(1)]


def test_a_full_log_is_made_shorter_and_then_refuses(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.add([answered(1, f"grain {k}", "timed") for k in range(1, 40)])
    size = log.path.stat().st_size
    monkeypatch.setattr(log_module, "LIMIT", size)
    log.add([sample(2)])
    assert log.path.stat().st_size < size / 2
    monkeypatch.setattr(log_module, "LIMIT", 100)
    before = log.path.read_bytes()
    with pytest.raises(SmeltError, match="the log is full"):
        log.add([sample(3)])
    assert log.path.read_bytes() == before


# --- what stands


def test_the_latest_answer_counts_until_it_is_refused_or_forgotten(log: Log) -> None:
    first, second = answered(1, "grain 1"), answered(1, "grain 2")
    log.add([first, second])
    assert in_force(log) == [second]
    log.add([answered(1, "grain 2", "timed")])  # measured once more, in a search
    assert in_force(log) == [second]
    log.add([answered(1, "grain 2", "refused")])
    assert in_force(log) == [first]
    forget(log, [first])
    assert in_force(log) == []
    log.add([second])
    assert in_force(log) == [second]


def test_figures_of_another_method_are_hints(log: Log) -> None:
    log.add([answered(1, "grain 1"), answered(1, "grain 2", evidence=Evidence(9.0, 8.0, method=0))])
    assert [one.record.answer.schedule for one in known(log.load().records)] == ["grain 1"]


def test_compacting_keeps_answers_warnings_and_some_losers(log: Log) -> None:
    timed = [answered(1, f"grain {k}", "timed", evidence=Evidence(k / 40)) for k in range(1, 40)]
    kept = [answered(1, "grain 50"), answered(1, "grain 51", "hung"), answered(1, "grain 52", "imported"), sample(2)]
    gone = [
        answered(1, "grain 60"),
        answered(1, "grain 60", FORGOTTEN),
        answered(1, "grain 61", "refused", evidence=Evidence()),
    ]
    log.add([*gone, *timed, *kept])
    log.compact()
    records, skipped = log.load()
    assert not skipped
    assert records == [*timed[-log_module.LOSERS :], *kept]
    assert set(os.listdir(log.root)) == {"lock", "records.log"}


# --- from machine to machine


def test_what_is_imported_is_a_hint_until_it_is_trusted(log: Log, tmp_path: Path) -> None:
    other, file = Log(tmp_path / "other"), tmp_path / "file.log"
    log.add([sample(1), sample(2), answered(3, "", "hung")])
    assert export(log.load().records, file) == 3
    assert take(other, file, "mine") == {"taken": 2, "foreign": 1}
    assert [(r.state, r.run) for r in other.load().records] == [("imported", "mine")] * 2
    assert in_force(other) == []
    assert take(other, file, "again") == {"taken": 0, "known": 2, "foreign": 1}
    assert take(other, file, "trusted", trust=True) == {"taken": 2, "foreign": 1}
    assert sorted(in_force(other)) == [r._replace(run="trusted") for r in sorted((sample(1), sample(2)))]


def test_a_hostile_file_gives_nothing(log: Log, tmp_path: Path) -> None:
    file = tmp_path / "file.log"
    names = answered(1, 'stage "int main(void) {" at i0.0 (i0)')
    file.write_bytes(write(answered(1, "rm -rf")) + b"\0" * (3 * LINE) + b"\n" + write(names) + b"[" * 9000)
    counts = take(log, file, "run")
    assert counts["foreign"] >= 1 and counts["damaged"] >= 1
    assert in_force(log) == []
    for path, why in (
        (tmp_path, "Is a directory"),
        (tmp_path / "missing", "No such file"),
        (Path("/dev/null"), "not a"),
    ):
        with pytest.raises(ArgumentError, match=why):
            take(log, path, "run")


def test_the_last_run_is_the_latest_that_still_counts(log: Log) -> None:
    log.add([answered(1, "", run="a"), answered(2, "", run="b"), answered(2, "", FORGOTTEN, run="c")])
    assert [record.run for record in counting(log.load().records)] == ["a"]


# --- attacks, which `smelt tune selftest` makes longer


def test_killed_writers_lose_nothing() -> None:
    assert kill(4, kinds=("writer", "tuner") if TEST_ALL else ("writer",)) == []


def test_writers_side_by_side_lose_nothing() -> None:
    assert writers(3, 12, races=3 if TEST_ALL else 0) == []


def test_nothing_in_a_file_raises() -> None:
    assert fuzz(3000) == []
