"""The commands as a user types them."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from pathlib import Path

import pytest

import smelt as sm
from smelt import cli
from smelt.cli import devices, doctor
from smelt.config import configure
from smelt.device import registry
from smelt.errors import CompilerError


def test_help_loads_no_command() -> None:
    code = "import sys, smelt.cli; smelt.cli._parser().format_help(); sys.exit('smelt.compiler' in sys.modules)"
    assert subprocess.run([sys.executable, "-W", "error", "-c", code], check=False).returncode == 0


def test_the_package_runs_as_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "smelt"], check=True, capture_output=True, text=True)
    assert "smelt doctor" in done.stdout


def test_without_a_command_the_commands_are_listed_with_examples(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.main([]) == 0
    said = capsys.readouterr().out
    listed = said.partition("COMMAND\n")[2].partition("\n\n")[0].splitlines()
    commands = ["doctor", "devices", "demo", "bench", "tune", "emit-stablehlo", "emit-mlir", "emit-source", "check"]
    commands += ["chat", "generate", "serve", "models", "convert", "perplexity", "compare", "llm-bench"]
    assert [line.split()[0] for line in listed] == commands  # a line each
    assert "\n  smelt doctor " in said
    assert "smelt COMMAND --help" in said


def test_bench_is_the_suites(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["bench", "compare", "--help"])
    assert stop.value.code == 0
    assert "usage: smelt bench compare" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["smelter"], ["doctor", "--yaml"]])
def test_unknown_words_are_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    assert stop.value.code == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("problem", "status"), [(CompilerError("no compiler"), 1), (KeyboardInterrupt(), 130)])
def test_a_failing_command_has_an_exit_status(
    problem: BaseException, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> int:
        raise problem

    monkeypatch.setattr(doctor, "main", fail)
    assert cli.main(["doctor"]) == status
    captured = capsys.readouterr()
    assert captured.out == ""
    assert ("no compiler" in captured.err) == (status == 1)


def test_doctor_reports_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["compiler"]["found"] is True
    assert found["processor"]["cores"] >= 1
    assert found["processor"]["vector_bytes"] in {16, 32, 64}
    assert found["processor"]["threads"] >= 1
    assert found["devices"]["cpu"]["cores"] == found["processor"]["cores"]
    assert found["devices"].keys() == registry.MODULES.keys()
    assert found["versions"]["numpy"]
    assert found["memory"]["free_bytes"] > 0
    assert found["cache"]["writable"] is True
    assert found["cache"]["problem"] is None
    assert found["cache"]["free_bytes"] > 0


def test_doctor_says_what_is_wrong_with_the_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def cache(folder: Path | str) -> dict[str, object]:
        with configure(cache_dir=folder):
            assert cli.main(["doctor", "--json"]) == 0
            found: dict[str, object] = json.loads(capsys.readouterr().out)["cache"]
            assert cli.main(["doctor"]) == 0
            assert str(found["problem"] or "none") in capsys.readouterr().out
        return found

    (tmp_path / "file").touch()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert "no home directory" in str(cache("")["problem"])
    assert cache(tmp_path / "file" / "cache")["problem"] == "Not a directory"
    assert cache(tmp_path / "open")["problem"] == "others may write to it"
    fresh = cache(tmp_path / "not" / "there")
    assert (fresh["exists"], fresh["writable"], fresh["problem"]) == (False, True, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "open"]
    assert list((tmp_path / "open").iterdir()) == []


def test_devices_lists_the_processor(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["devices", "--json"]) == 0
    [cpu, *_] = json.loads(capsys.readouterr().out)
    assert cpu["device"] == "cpu"
    assert cpu["cores"] >= 1
    assert cpu["vector_bytes"] in {16, 32, 64}
    assert cpu["memory_bytes"] > cpu["l3_bytes"] > cpu["l2_bytes"] > cpu["l1_bytes"] > 0
    assert cli.main(["devices"]) == 0
    title, row, *_ = capsys.readouterr().out.splitlines()
    assert title.split()[0] == "device"
    assert row.split()[0] == "cpu"


def test_other_devices_need_only_describe_themselves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = types.ModuleType("other_device")
    other.describe = lambda: [{"device": "other:0", "name": "A card", "memory_bytes": 3 << 30}]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "other_device", other)
    monkeypatch.setitem(registry.MODULES, "other", "other_device")
    assert cli.main(["devices"]) == 0
    assert " ".join(capsys.readouterr().out.splitlines()[-1].split()) == "other:0 A card - - - - - - 3 GiB -"
    monkeypatch.setattr(registry, "MODULES", {})
    assert cli.main(["devices"]) == 1


@pytest.mark.opencl
def test_devices_lists_opencl(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["devices", "--json"]) == 0
    cpu, opencl = json.loads(capsys.readouterr().out)
    assert (cpu["device"], opencl["device"]) == ("cpu", "opencl")
    assert opencl["name"] and opencl["memory_bytes"] > opencl["local_memory_bytes"] > 0


@pytest.mark.parametrize("name", ["cpu:1", "cpu:0", "opencl:x", "tpu", ""])
def test_devices_that_are_not_there_are_refused(name: str) -> None:
    with pytest.raises(sm.errors.DeviceError, match="there is no device"):
        sm.zeros(2).to_device(name)


@pytest.mark.parametrize(
    ("nbytes", "text"), [(7, "7 B"), (48 << 10, "48 KiB"), (3 << 19, "1.5 MiB"), (5 << 30, "5 GiB")]
)
def test_sizes_are_shown_in_a_fitting_unit(nbytes: int, text: str) -> None:
    assert devices.size_text(nbytes) == text


def test_doctor_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor"]) == 0
    titles = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert titles == ["versions", "system", "compiler", "processor", "devices", "rates", "memory", "cache", "tuned"]


def test_doctor_measures_once_and_knows_it_afterwards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with configure(cache_dir=tmp_path / "cache", disk_cache=True):
        found = []
        for words in ([], ["--measure"], []):
            assert cli.main(["doctor", "--json", *words]) == 0
            found.append(json.loads(capsys.readouterr().out)["rates"])
    assumed, measured, known = found
    assert assumed.pop("source").startswith("assumed")
    assert (measured.pop("source"), known.pop("source")) == ("measured now", "measured before")
    assert known == measured != assumed
    assert all(figure > 0 for name, figure in measured.items() if name != "words")
    assert measured["memory_all"] >= measured["memory"]


def test_doctor_measures_nothing_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    import smelt.bench.rates

    monkeypatch.setattr(smelt.bench.rates, "measured", lambda: pytest.fail("it was not asked for"))
    assert cli.main(["doctor"]) == 0


def test_doctor_fails_without_a_compiler(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from smelt.device import toolchain

    def missing() -> None:
        raise CompilerError("no C compiler", hint="install one")

    monkeypatch.setattr(toolchain, "compiler", missing)
    assert cli.main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["compiler"] == {"found": False, "problem": "no C compiler install one"}


def test_the_size_of_a_folder_counts_files_and_not_what_links_point_to(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "entry").write_bytes(b"x" * 1009)
    target = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    target.write_bytes(b"x" * 100_003)
    (tmp_path / "link").symlink_to(target)
    assert 1009 <= doctor._size(tmp_path) < 100_003
    assert doctor._size(tmp_path / "missing") == 0
