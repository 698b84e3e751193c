"""Finding a compiler and building with it, on machines that are kind and machines that are not."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from smelt.config import configure, settings
from smelt.device import compilation, discovery, toolchain
from smelt.errors import CompilerError, InternalError
from tests.device.helpers import holds_in_forked_child

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path) -> Iterator[None]:
    with configure(cache_dir=tmp_path / "cache"):
        yield


@pytest.fixture(autouse=True)
def private_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def answer(value: int, remark: str) -> str:
    """Source for `answer`; the remark keeps tests from meeting in the libraries of this process."""
    return f"int answer(void) {{ return {value}; }} /* {remark} */"


def call(library: toolchain.Library) -> int:
    return int(ctypes.CFUNCTYPE(ctypes.c_int)(library.address("answer"))())


def script(path: Path, body: str) -> Path:
    """A program that answers `--version` and otherwise does what `body` says."""
    path.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo "fake 1.0"; exit 0; fi\n{body}\n')
    path.chmod(0o700)
    return path


def true_compiler() -> str:
    found = shutil.which(toolchain.compiler().command[0])
    assert found is not None
    return " ".join((found, *toolchain.compiler().command[1:]))


def fresh_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has not looked for a compiler yet."""
    monkeypatch.setattr(discovery, "_compilers", {})


def test_source_becomes_code() -> None:
    [first, second] = toolchain.build([answer(41, "code"), answer(43, "code")])
    assert [call(first), call(second)] == [41, 43]
    with pytest.raises(InternalError, match="lacks the function 'missing'"):
        first.address("missing")
    assert toolchain.build([]) == []


def test_sources_are_compiled_from_when_they_are_known() -> None:
    before = toolchain.compile_count()
    with toolchain.building(beside=[answer(0, "beside")]) as builder:
        assert toolchain.compile_count() == before
        for number in range(5):
            builder.add(answer(number, "one by one"))
            builder.advance()
            assert before < toolchain.compile_count()
        libraries = builder.finish()
    assert [call(library) for library in libraries] == [0, 1, 2, 3, 4]
    assert toolchain.compile_count() == before + 6


def test_a_compiler_that_ended_in_time_is_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the caller was busy with other things."""
    with toolchain.building() as builder:
        builder.add(answer(18, "in time"))
        [run] = builder._runs.values()
        run.child._process.wait()
        monkeypatch.setattr(run.child, "_deadline", 0.0)
        [library] = builder.finish()
    assert call(library) == 18


def test_folders_of_processes_that_were_killed_go(private_temporary_folder: Path) -> None:
    left, fresh, other = (private_temporary_folder / name for name in ("smelt-build-a", "smelt-build-b", "smelt-c"))
    for path in (left, fresh, other):
        path.mkdir()
        (path / "source.c").touch()
        os.utime(path, (0, 0) if path is not fresh else None)
    with compilation.temporary_folder() as first:
        os.utime(first, (0, 0))  # it is held, however old it is
        with compilation.temporary_folder() as second:
            assert set(private_temporary_folder.iterdir()) == {fresh, other, first, second}
    assert set(private_temporary_folder.iterdir()) == {fresh, other}


def test_what_is_given_up_leaves_nothing_behind(private_temporary_folder: Path) -> None:
    with pytest.raises(ZeroDivisionError), toolchain.building() as builder:
        builder.add(answer(17, "given up"))
        raise ZeroDivisionError
    assert list(private_temporary_folder.iterdir()) == []
    [library] = toolchain.build([answer(17, "given up")])
    assert call(library) == 17


def test_equal_sources_are_compiled_once() -> None:
    before = toolchain.compile_count()
    source = answer(1, "once")
    [first, second] = toolchain.build([source, source])
    assert first is second
    assert toolchain.build([source]) == [first]
    assert toolchain.compile_count() == before + 1


def test_later_processes_find_code_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    toolchain.build([answer(3, "disk")])
    before = toolchain.compile_count()
    monkeypatch.setattr(toolchain, "_libraries", {})  # what a new process knows
    [library] = toolchain.build([answer(3, "disk")])
    assert call(library) == 3
    assert toolchain.compile_count() == before


def test_a_damaged_library_is_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    toolchain.build([answer(4, "damage")])
    [path] = (Path(settings().cache_dir) / "library").iterdir()
    path.write_bytes(path.read_bytes()[:-100])
    monkeypatch.setattr(toolchain, "_libraries", {})
    with pytest.warns(UserWarning, match="could not be trusted"):
        [library] = toolchain.build([answer(4, "damage")])
    assert call(library) == 4


@pytest.mark.parametrize("why", ["switched off", "unusable"])
def test_building_works_without_a_disk_cache(tmp_path: Path, why: str) -> None:
    (tmp_path / "file").write_text("in the way")
    changes = {"disk_cache": False} if why == "switched off" else {"cache_dir": tmp_path / "file" / "cache"}
    with configure(**changes):
        [library] = toolchain.build([answer(5, why)])
    assert call(library) == 5


def test_nothing_stays_behind(private_temporary_folder: Path) -> None:
    toolchain.build([answer(number, "behind") for number in range(5)])
    assert list(private_temporary_folder.iterdir()) == []
    assert all(stat.S_ISREG(path.stat().st_mode) for path in (Path(settings().cache_dir) / "library").iterdir())


def test_threads_that_want_the_same_compile_it_once() -> None:
    before = toolchain.compile_count()
    barrier = threading.Barrier(8)
    found: list[toolchain.Library] = []

    def want() -> None:
        barrier.wait()
        found.extend(toolchain.build([answer(6, "threads"), answer(7, "threads")]))

    threads = [threading.Thread(target=want) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert len(set(map(id, found))) == 2
    assert toolchain.compile_count() == before + 2


def test_a_source_that_does_not_compile_is_our_mistake(private_temporary_folder: Path) -> None:
    source = "this is not C /* refused */"
    with pytest.raises(InternalError) as caught:
        toolchain.build([answer(8, "beside a refused one"), source])
    kept = next((Path(settings().cache_dir) / "failed").glob("*.c"))
    assert str(kept) in str(caught.value)
    assert "bug in smelt" in str(caught.value)
    assert "error:" not in str(caught.value)  # what the compiler said is beside the source, not in the message
    assert kept.read_text() == source
    assert "error" in kept.with_suffix(".txt").read_text()
    assert list(private_temporary_folder.iterdir()) == []
    with pytest.raises(InternalError):  # and again: a failure is not remembered as success, nor waited for
        toolchain.build([source])


def test_a_refused_source_is_kept_without_a_disk_cache_too(private_temporary_folder: Path) -> None:
    with configure(disk_cache=False), pytest.raises(InternalError) as caught:
        toolchain.build(["neither is this"])
    [folder] = private_temporary_folder.iterdir()
    [kept] = folder.glob("*.c")
    assert str(kept) in str(caught.value)


def test_code_that_does_not_load_is_our_mistake() -> None:
    source = "void no_such_function_anywhere(void); void f(void) { no_such_function_anywhere(); }"
    with pytest.raises(InternalError, match="failed"):
        toolchain.build([source])


def test_names_of_the_c_library_resolve_when_loaded() -> None:
    [library] = toolchain.build(["extern int abs(int); int answer(void) { return abs(-9); }"])
    assert call(library) == 9


def test_machine_flags_that_are_refused_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse = f'case "$*" in *-march=native*|*-mcpu=native*) exit 1;; esac\nexec {true_compiler()} "$@"'
    fussy = script(tmp_path / "fussy", refuse)
    with configure(compiler=str(fussy)):
        [library] = toolchain.build([answer(10, "flags")])
        assert call(library) == 10
        fewest = toolchain.compiler().machine_flags
        assert not any("native" in flag for flag in fewest)
        before = toolchain.compile_count()
        toolchain.build([answer(11, "flags")])
        assert toolchain.compile_count() == before + 1
        fresh_compiler(monkeypatch)  # later processes know
        assert toolchain.compiler().machine_flags == fewest


def test_a_compiler_that_is_killed_once_keeps_its_flags(tmp_path: Path) -> None:
    once = f"[ -e {tmp_path}/killed ] || {{ touch {tmp_path}/killed; echo killed cc1 >&2; exit 1; }}"
    once += f'\nexec {true_compiler()} "$@"'
    tired = script(tmp_path / "tired", once)
    with configure(compiler=str(tired)):
        before = toolchain.compiler().flags
        [library] = toolchain.build([answer(12, "by a compiler that was killed")])
        assert call(library) == 12
        assert toolchain.compiler().flags == before


def test_a_compiler_that_refuses_everything_is_not_our_mistake(tmp_path: Path) -> None:
    broken = script(tmp_path / "broken", "yes a long story | head -c 9999 >&2; exit 1")
    with configure(compiler=str(broken)), pytest.raises(CompilerError) as caught:
        toolchain.build([answer(12, "failing")])
    assert f"{broken}' refuses even a function of one line; it says: a long story" in str(caught.value)
    assert "SMELT_CC" in str(caught.value)
    assert "bug in smelt" not in str(caught.value)
    assert len(str(caught.value)) < 1200
    assert not (Path(settings().cache_dir) / "failed").exists()


def test_arguments_that_a_compiler_does_not_know_are_the_setting_s_mistake() -> None:
    with configure(compiler=f"{true_compiler()} --no-such-flag"), pytest.raises(CompilerError, match="no-such-flag"):
        toolchain.build([answer(19, "arguments")])


def test_a_compiler_without_headers_is_not_our_mistake() -> None:
    with configure(compiler=f"{true_compiler()} -nostdinc"), pytest.raises(CompilerError, match=r"time\.h"):
        toolchain.build(["#include <signal.h>\n" + answer(20, "headers")])


def test_a_compiler_that_is_killed_is_not_our_mistake(tmp_path: Path) -> None:
    killed = script(tmp_path / "killed", "kill -9 $$")
    with configure(compiler=str(killed)), pytest.raises(CompilerError, match="SIGKILL"):
        toolchain.build([answer(13, "killed")])


def test_a_compiler_that_never_ends_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endless = script(tmp_path / "endless", "sleep 30")
    monkeypatch.setattr(compilation, "TIME_LIMIT", 0.25)
    with configure(compiler=str(endless)), pytest.raises(CompilerError, match="did not finish within"):
        toolchain.build([answer(14, "endless")])


def ends(pipe: Path) -> threading.Thread:
    """A thread that ends when nobody holds the other side of a pipe any more."""
    os.mkfifo(pipe)
    thread = threading.Thread(target=pipe.read_bytes, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("count", [1, 3])
def test_what_a_compiler_leaves_running_is_neither_waited_for_nor_left(tmp_path: Path, count: int) -> None:
    """A helper of the compiler holds its stderr open, and would do so for minutes."""
    gone = ends(tmp_path / "alive")
    body = f'sleep 300 3> {tmp_path / "alive"} &\necho a warning >&2; exec {true_compiler()} "$@"'
    with configure(compiler=str(script(tmp_path / "leaves", body))):
        libraries = toolchain.build([answer(number, f"leaves {count}") for number in range(count)])
    assert [call(library) for library in libraries] == list(range(count))
    gone.join(60)
    assert not gone.is_alive()


def test_a_compiler_that_is_late_is_stopped_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = ends(tmp_path / "alive")
    late = script(tmp_path / "late", f"sleep 300 3> {tmp_path / 'alive'} & sleep 300")
    monkeypatch.setattr(compilation, "TIME_LIMIT", 0.25)
    with configure(compiler=str(late)), pytest.raises(CompilerError, match="did not finish within"):
        toolchain.build([answer(21, "late")])
    gone.join(60)
    assert not gone.is_alive()


def test_a_compiler_that_makes_nothing(tmp_path: Path) -> None:
    idle = script(tmp_path / "idle", "exit 0")
    with configure(compiler=str(idle)), pytest.raises(CompilerError, match="made nothing"):
        toolchain.build(["int nothing;"])


INTERRUPTED = """
import signal
from smelt.device import toolchain
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background starts without
try:
    toolchain.build(["int a;", "int b;", "int c;"])
except KeyboardInterrupt:
    print("interrupted", not any(builder.locked() for builder in toolchain._builders.values()))
"""


def test_ctrl_c_stops_everything(tmp_path: Path, private_temporary_folder: Path) -> None:
    """The compiler and its child run endlessly; the signal comes when both do."""
    alive = tmp_path / "alive"
    os.mkfifo(alive)
    slow = script(tmp_path / "slow", f"exec 3> {alive}; sleep 30 & echo started >&3; wait")
    variables = {"SMELT_CC": str(slow), "SMELT_CACHE_DIR": str(tmp_path / "c"), "TMPDIR": str(private_temporary_folder)}
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED], cwd=ROOT, env=os.environ | variables, stdout=subprocess.PIPE
    )
    with alive.open() as pipe:
        assert pipe.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate()
        assert said.decode().strip() == "interrupted True"
        assert pipe.read().replace("started\n", "") == ""  # comes to an end because nobody holds the other side
    assert list(private_temporary_folder.iterdir()) == []
    assert not (tmp_path / "c" / "library").exists()


def test_a_waiting_thread_takes_over_what_another_gave_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first compilation fails after the second thread has begun to wait for it; the second compiles itself."""
    source, first_is_in, second_waits = answer(15, "take over"), threading.Event(), threading.Event()
    true_compile = toolchain.Builder._compile
    turns: list[int] = []

    def compile_(builder: toolchain.Builder, chosen: toolchain.Compiler, key: str, source: str) -> None:
        turns.append(0)
        if len(turns) > 1:
            true_compile(builder, chosen, key, source)
            return
        first_is_in.set()
        second_waits.wait()
        raise KeyboardInterrupt

    true_wait = toolchain._wait_for

    def wait_for(key: str) -> None:
        second_waits.set()
        true_wait(key)

    monkeypatch.setattr(toolchain.Builder, "_compile", compile_)
    monkeypatch.setattr(toolchain, "_wait_for", wait_for)
    outcomes: list[object] = []

    def first() -> None:
        try:
            toolchain.build([source])
        except KeyboardInterrupt as error:
            outcomes.append(type(error))

    thread = threading.Thread(target=first)
    thread.start()
    first_is_in.wait()
    [library] = toolchain.build([source])
    thread.join()
    assert call(library) == 15
    assert outcomes == [KeyboardInterrupt]


def test_a_forked_child_does_not_wait_for_threads_of_its_parent() -> None:
    source = answer(16, "fork")
    chosen = toolchain.compiler()
    key, building = "00" * 32, threading.Lock()
    with toolchain._lock, building:
        toolchain._builders[key] = building

        def check() -> bool:
            forgotten = key not in toolchain._builders
            return forgotten and call(toolchain.build([source])[0]) == 16 and toolchain.compiler() == chosen

        assert holds_in_forked_child(check)
        del toolchain._builders[key]


# ---- discovery ----


def test_the_identity_names_everything_that_matters() -> None:
    chosen = toolchain.compiler()
    assert chosen.family in ("gcc", "clang", "zig")
    for part in (*chosen.command, chosen.version, *chosen.flags):
        assert part in chosen.identity
    assert "-ffast-math" not in chosen.flags
    assert next(chosen.with_fewer_flags()).identity != chosen.identity


def test_no_compiler_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(discovery.importlib.util, "find_spec", lambda name: None)
    with configure(compiler=""), pytest.raises(CompilerError) as caught:
        toolchain.compiler()
    assert "pip install ziglang" in str(caught.value)
    assert "gcc or clang" in str(caught.value)


def test_a_named_compiler_that_is_missing_is_named(tmp_path: Path) -> None:
    with configure(compiler=str(tmp_path / "nowhere")), pytest.raises(CompilerError, match="nowhere"):
        toolchain.compiler()


def test_a_command_that_cannot_be_read_is_the_setting_s_mistake() -> None:
    with configure(compiler="cc '"), pytest.raises(CompilerError, match="No closing quotation") as caught:
        toolchain.compiler()
    assert "SMELT_CC" in str(caught.value)


@pytest.mark.parametrize("body", ["sleep 300 &\nwait", "sleep 300 &\necho fake 1.0"])
def test_a_version_that_never_comes_leaves_nothing_running(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = ends(tmp_path / "alive")
    (tmp_path / "slow").write_text(f"#!/bin/sh\nexec 3> {tmp_path / 'alive'}\n{body}\n")
    (tmp_path / "slow").chmod(0o700)
    monkeypatch.setattr(discovery, "_VERSION_TIME_LIMIT", 1.0)
    with configure(compiler=str(tmp_path / "slow")):
        if "wait" in body:
            with pytest.raises(CompilerError, match="does not work as a C compiler"):
                toolchain.compiler()
        else:
            assert toolchain.compiler().version == "fake 1.0"
    gone.join(60)
    assert not gone.is_alive()


def test_a_program_that_is_no_compiler_is_refused() -> None:
    with configure(compiler="false"), pytest.raises(CompilerError, match="does not work as a C compiler"):
        toolchain.compiler()


def test_the_first_candidate_that_works_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "cc").write_text("#!/bin/sh\nexit 1\n")  # as on a Mac without its developer tools
    (tmp_path / "cc").chmod(0o700)
    script(tmp_path / "gcc", "exit 1")
    with configure(compiler=""):
        assert toolchain.compiler().command == (str(tmp_path / "gcc"),)


def test_the_zig_package_serves_where_nothing_else_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "site" / "ziglang"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('not to be imported')")
    (package / "zig").write_text('#!/bin/sh\n[ "$1 $2" = "cc --version" ] && echo "clang version 20"\n')
    (package / "zig").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with configure(compiler=""):
        found = toolchain.compiler()
        toolchain.compiler()
    assert found.command == (str(package / "zig"), "cc")
    assert found.family == "zig"
    assert capsys.readouterr().err.count("ziglang") == 1


def test_a_command_with_arguments(tmp_path: Path) -> None:
    wrapper = script(tmp_path / "wrapper", 'shift; exec "$@"')
    (tmp_path / "with space").mkdir()
    spaced = script(tmp_path / "with space" / "cc", "exit 1")
    with configure(compiler=f"{wrapper} --version"):
        assert toolchain.compiler().command == (str(wrapper), "--version")
    with configure(compiler=str(spaced)):
        assert toolchain.compiler().command == (str(spaced),)


def test_the_version_is_asked_for_once_per_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = tmp_path / "asked"
    program = tmp_path / "counting"
    text = f"""
        #!/bin/sh
        echo x >> {asked}
        echo counting 1.0
        """
    program.write_text(textwrap.dedent(text).lstrip())
    program.chmod(0o700)
    with configure(compiler=str(program)):
        for _ in range(3):
            fresh_compiler(monkeypatch)
            assert toolchain.compiler().version == "counting 1.0"
        assert asked.read_text() == "x\n"
        program.write_text(program.read_text().replace("1.0", "22.0"))  # an update: the file is another one
        fresh_compiler(monkeypatch)
        assert toolchain.compiler().version == "counting 22.0"
