"""Real races in real workers: short ones, whose times nobody looks at."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from smelt.cost.rates import assumed
from smelt.device.cpu import CPU
from smelt.kernel import Illegal, Region
from smelt.schedule import templates
from smelt.search import measure, processes
from smelt.search.build import built
from smelt.search.contender import Contender, Timed
from smelt.search.measure import Racer, timing_turn
from smelt.search.processes import Lost, Worker
from smelt.search.selftest.mutants import survey
from smelt.search.selftest.races import races
from tests.kernel import regions as r
from tests.turns import TEST_ALL

DEVICE = CPU()


def contenders(region: Region, count: int) -> list[Contender]:
    """The default, and others that differ from it in one knob."""
    found = {(default := Contender.default(region, DEVICE)).digest: default}
    for template in templates(region, DEVICE.profile):
        for name, values in template.domains.items():
            for value in values[1:]:
                try:
                    other = Contender.of(template.at(replace(template.default, **{name: value})), region, DEVICE)
                except Illegal:
                    continue
                found.setdefault(other.digest, other)
                if len(found) == count:
                    return list(found.values())
    return list(found.values())


def broken(contender: Contender, text: str) -> Contender:
    """With something else at the beginning of its body."""
    at = contender.source.rindex("long end) {") + len("long end) {")
    return replace(contender, source=contender.source[:at] + text + contender.source[at:])


def children(process: int | None = None) -> set[int]:
    number = process or os.getpid()
    path = Path(f"/proc/{number}/task/{number}/children")
    return set(map(int, path.read_text().split())) if path.exists() else set()


def test_contenders_are_verified_and_timed() -> None:
    region, before = r.matmul(37, 41, 29).region, children()
    racer = Racer(DEVICE)
    some = contenders(region, 4)
    outcomes = racer.race(region, some, 0.2)
    assert [(o.digest, o.state, o.reason) for o in outcomes] == [(c.digest, "timed", "") for c in some]
    for outcome in outcomes:
        assert outcome.verdict is not None and outcome.verdict.right
        assert outcome.timed is not None and outcome.timed.low <= outcome.timed.ratio <= outcome.timed.high
    assert outcomes[0].timed is not None and outcomes[0].timed.ratio == pytest.approx(1.0, abs=0.5)
    assert racer.confirm(region, some[1], some[0], 0.2).seconds > 0
    racer.close()
    assert not children() - before, "a worker was left behind"


def test_whoever_hangs_crashes_or_does_not_compile_is_found() -> None:
    region, before = r.elementwise(5000).region, children()
    default = Contender.default(region, DEVICE)
    some = [
        default,
        broken(default, "for (volatile int i = 1; i;) {}"),
        broken(default, "*(volatile int *)8 = 1;"),
        broken(default, "this is no C"),
        broken(
            default, "static long runs; if (begin == 0 && __atomic_fetch_add(&runs, 1, 0) > 7) *(volatile int *)8 = 1;"
        ),
        broken(default, ""),
    ]
    outcomes = Racer(DEVICE).race(region, some, 0.5)
    assert [o.state for o in outcomes[:5]] == ["timed", "hung", "crashed", "refused", "crashed"]
    assert outcomes[5].state == "timed"
    assert outcomes[2].reason == "Segmentation fault"
    assert not children() - before, "a worker outlives those who started it"


def test_one_worker_serves_several_regions() -> None:
    before = children()
    with Racer(DEVICE) as racer:
        for region in (r.matmul(37, 41, 29).region, r.elementwise(500).region):
            outcomes = racer.race(region, contenders(region, 2), 0.1)
            assert {outcome.state for outcome in outcomes} == {"timed"}
            assert len(children() - before) in (0, 1, 3), "one that searches, and perhaps two that will confirm"
    assert not children() - before


def test_what_there_is_no_time_for_is_late() -> None:
    region = r.elementwise(700).region
    with Racer(DEVICE) as racer:
        racer.until = time.monotonic() - 1.0
        outcomes = racer.race(region, contenders(region, 3), 0.2)
        assert [outcome.state for outcome in outcomes] == ["late"] * len(outcomes)
        default = Contender.default(region, DEVICE)
        assert racer.confirm(region, default, default, 0.2).turns == 0


class Busy:
    """A worker's machine that is quiet at the third look."""

    def __init__(self) -> None:
        self.looks = 0

    def ask(self, limit: float, job: str, **arguments: Any) -> bool:
        assert job == "quiet"
        self.looks += 1
        return self.looks == 3


def test_a_busy_machine_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "LOOK_SECONDS", 0.0)
    said: list[str] = []
    racer, busy = Racer(DEVICE), Busy()
    racer.say = said.append
    now = time.monotonic()
    racer._turns.extend([(now, 30, 5), (now, 3, 9)])
    racer._pause(busy)  # type: ignore[arg-type]
    assert not said and not busy.looks, "most turns counted"
    racer._turns.extend([(now, 0, 30), (now - 100, 0, 1000)])
    racer._pause(busy)  # type: ignore[arg-type]
    assert busy.looks == 3 and len(said) == 1 and "busy" in said[0]
    racer._pause(busy)  # type: ignore[arg-type]
    assert busy.looks == 3, "what was disturbed before does not count again"


def test_a_worker_says_how_its_machine_does() -> None:
    region = r.elementwise(500).region
    with Racer(DEVICE) as racer:
        racer.race(region, contenders(region, 2), 0.1)
        assert sum(racer._turns[-1][1:]) >= 1
        assert racer._is_quiet(racer.expect(region)) in (True, False)


def test_what_is_faster_than_the_machine_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    region = r.matmul(64, 64, 64).region
    rates = assumed(DEVICE.profile)._replace(multiply_add=1.0, words=0.0)
    monkeypatch.setattr(measure.rates, "stored", lambda _: rates)
    some = contenders(region, 3)
    with Racer(DEVICE) as racer:
        least = racer._least_seconds(region, some[0])
        assert least >= 2 * 64**3 / DEVICE.profile.cores * 1e-9 / measure.SPARE
        times = {at: Timed(1.0, 1.0, 1.0, least * factor, 15) for at, factor in enumerate((2.0, 1.5, 0.5))}
        monkeypatch.setattr(racer, "_raced", lambda *_: times)
        outcomes = racer.race(region, some, 0.1)
        assert [outcome.state for outcome in outcomes] == ["timed", "timed", "wrong"]
        assert outcomes[2].reason == "it is faster than the machine"
        region = r.matmul(64, 64, 64, symbolic="m").region
        assert racer._least_seconds(region, Contender.default(region, DEVICE)) == 0, "it is raced at other sizes"


def test_nothing_is_raced_if_the_default_is_wrong() -> None:
    region = r.elementwise(500).region
    default = Contender.default(region, DEVICE)
    outcomes = Racer(DEVICE).race(region, [broken(default, "return;"), default], 0.2)
    assert [o.state for o in outcomes] == ["wrong", "refused"]
    assert "were not written" in outcomes[0].reason


def test_sources_that_take_too_long_are_found_among_others() -> None:
    sources = [f"int f{k}(void) {{ return {k}; }}" for k in range(5)]
    slow = "int x;\n#define A(n) n n n n n n n n n n\nvoid f(void) { A(A(A(A(A(A(x++;)))))) }"
    found = built([*sources[:2], slow, *sources[2:]], DEVICE, limit=1.0)
    assert [isinstance(one, str) for one in found] == [False, False, True, False, False, False]


def test_a_worker_that_is_asked_nonsense_says_so_and_ends_with_its_parent() -> None:
    worker = Worker(DEVICE)
    with pytest.raises(Exception, match="could not region"):
        worker.ask(10.0, "region", text="no region", sizes={}, seed=0, is_checked=True)
    worker.stop()
    with pytest.raises(Lost, match="it was ended"):
        worker.ask(1.0, "verify", kernel={}, kinds=[])


def test_who_tells_a_worker_something_need_not_know_that_it_has_ended() -> None:
    before, worker = children(), Worker(DEVICE)
    worker.ready()
    [nursery] = children() - before
    [process] = children(nursery)
    os.kill(process, signal.SIGKILL)
    while children(nursery):
        time.sleep(0.01)
    worker.tell("region", text="no region", sizes={}, seed=0, is_checked=True)
    with pytest.raises(Lost, match="Killed"):
        worker.ready()


def test_processes_without_standard_files_have_workers() -> None:
    code = """
        import os
        os.closerange(0, 3)
        from smelt.device.cpu import CPU
        from smelt.search.processes import Worker
        Worker(CPU()).ready()
        os._exit(7)
    """
    assert subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False, timeout=100).returncode == 7


def test_workers_are_copies_of_one_process_which_ends_with_the_last() -> None:
    before, held = children(), processes.nursery()
    first, second = Worker(DEVICE), Worker(DEVICE)
    first.ready()
    second.ready()
    [nursery] = children() - before
    both = children(nursery)
    first.stop()
    left = children(nursery)
    assert len(both) == 2 and len(left) == 1 and left < both
    os.kill(*left, signal.SIGTERM)
    with pytest.raises(Lost, match="Terminated"):
        second.ask(10.0, "region", text="no region", sizes={}, seed=0, is_checked=True)
    third = Worker(DEVICE)
    third.ready()
    assert children() - before == {nursery}
    del first, second, third
    assert children() - before == {nursery} and not children(nursery)
    del held
    assert children() == before


def test_who_dies_while_it_is_killed_takes_nobody_along() -> None:
    # Python gets to know of the death while the nursery still looks for whom to kill.
    code = """
        import os, signal, socket, subprocess, threading, time
        from smelt.search import worker

        def kill(process, number, kill=os.kill):
            kill(process, number)
            os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
            time.sleep(0.05)

        def read():
            print(os.read(answers, 100).decode(), end="")
            mine.close()

        os.kill = kill
        mine, theirs = socket.socketpair()
        nursery = worker.Nursery(theirs)
        (answers, pipe), process = os.pipe(), subprocess.Popen(["sleep", "60"])
        nursery._alive[process.pid] = 1, pipe
        mine.sendall((1).to_bytes(worker.NUMBER_BYTES, "little"))
        threading.Thread(target=read, daemon=True).start()
        nursery.serve(os.getppid())
        process.returncode = -9  # it was reaped
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ('{"ended": -9}\n', "")


def test_who_starts_workers_is_replaced_if_it_dies() -> None:
    before, held = children(), processes.nursery()
    [number] = children() - before
    os.kill(number, signal.SIGKILL)
    os.waitid(os.P_PID, number, os.WEXITED | os.WNOWAIT)
    worker = Worker(DEVICE)
    worker.ready()
    assert children() - before - {number} and processes.nursery() is not held


def test_one_process_times_at_a_time() -> None:
    path = Path(tempfile.gettempdir()) / "smelt-timing.lock"
    with timing_turn(), path.open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_mutants_are_never_timed() -> None:
    found = survey(DEVICE, regions=4 if TEST_ALL else 1)
    assert len(found) >= (40 if TEST_ALL else 15)
    survivors = [(one.region, one.mistake) for one in found if one.outcome.state == "timed"]
    assert survivors == []
    assert all(one.outcome.reason for one in found)


def test_the_default_is_not_adopted_against_itself() -> None:
    result = races(r.elementwise(5000).region, DEVICE, 2, seconds=0.1)
    assert (result.adopted, result.races) == (0, 2) and min(result.ratios) > 0.5
