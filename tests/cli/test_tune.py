"""`smelt tune` as a user types it."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from smelt import cli
from smelt.cli import choices
from smelt.config import configure
from smelt.device.cpu import CPU
from smelt.search.exchange import known, title_of
from smelt.search.log import Log, user_log
from smelt.search.record import Place, Question
from smelt.search.selftest import mutants
from smelt.search.selftest.samples import sample


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[None]:
    with configure(data_dir=tmp_path / "data"):
        yield


def log() -> Log:
    found = user_log()
    assert found is not None
    return found


def test_help_has_examples_and_loads_no_compiler(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tune"]) == 0
    said = capsys.readouterr().out
    assert "smelt tune forget --last" in said and "usage: smelt tune" in said
    code = "import sys, smelt.cli; smelt.cli.main(['tune']); sys.exit('smelt.compiler' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


def test_a_log_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tune", "list"]) == 0
    said = capsys.readouterr().out
    assert "0 choices" in said and "nothing was tuned yet" in said
    log().add([sample(1, "timed"), sample(1), sample(2)._replace(place=Place.of(CPU()))])
    with log().path.open("ab") as file:
        file.write(b"damage\n")
    assert cli.main(["tune", "list"]) == 0
    title, first, second, total = capsys.readouterr().out.splitlines()
    assert title.split()[:2] == ["name", "gain"] and title.index("state") == first.index("hint: other code")
    assert sample(2).question.digest[:12] in first and "exp -> float32[4]" in first
    assert "of other family, toolchain" in second and "1.25" in second and "1.6 ms" in second
    assert "2 choices, 0 of them used here, from 3 records" in total and "1 damaged" in total
    assert cli.main(["tune", "list", "--json", "--only", sample(1).question.digest[:6]]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["skipped"] == {"damaged": 1}
    assert [one["name"] for one in found["choices"]] == [sample(1).question.digest]


def test_one_choice_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    log().add([sample(1)])
    assert cli.main(["tune", "show", sample(1).question.digest[:5]]) == 0
    said = capsys.readouterr().out
    assert "%1: float32 = exp %0" in said and "split i0 (4 loop, 2 reg, 16 lane)" in said
    assert "another code: the default is used until smelt tune check" in said and "- split i0" in said
    assert cli.main(["tune", "show", "--json", sample(1).question.digest]) == 0
    assert json.loads(capsys.readouterr().out)[0]["region"] == sample(1).question.text
    for name, problem in (("f" * 32, "nothing is known as"), ("", "is no name"), ("matmul", "is no name")):
        assert cli.main(["tune", "show", name]) == 1
        assert problem in capsys.readouterr().err


def test_choices_are_forgotten(capsys: pytest.CaptureFixture[str]) -> None:
    log().add([sample(number)._replace(run=run) for number, run in ((1, "a"), (2, "b"), (3, "b"))])

    def left() -> int:
        assert cli.main(["tune", "list", "--json"]) == 0
        return len(json.loads(capsys.readouterr().out)["choices"])

    assert cli.main(["tune", "forget", "--last"]) == 0
    assert "forgot 2 records of 2 choices" in capsys.readouterr().out
    assert left() == 1
    assert cli.main(["tune", "forget", sample(1).question.digest[:8]]) == 0
    capsys.readouterr()
    assert left() == 0
    assert cli.main(["tune", "forget", "--last"]) == 0
    assert cli.main(["tune", "forget", sample(1).question.digest[:8]]) == 1
    capsys.readouterr()
    for words in ([], ["--last", "abc"]):
        with pytest.raises(SystemExit) as stop:
            cli.main(["tune", "forget", *words])
        assert stop.value.code == 2


def test_kernels_are_told_in_words() -> None:
    assert title_of(mutants.REGIONS[0]) == "matmul add -> float32[67, 61]"
    assert title_of(mutants.REGIONS[1]) == "max sub exp sum div -> float32[37, 203]"
    assert title_of("hostile") == "copy -> "
    log().add([sample(1)._replace(question=Question.of(text)) for text in mutants.REGIONS])
    assert len(known(log().load().records, "matmul")) == 1
    now = datetime.datetime.now(datetime.UTC)
    for ago, said in ((0, "now"), (90, "now"), (300, "5 minutes"), (7200, "2 hours"), (86400 * 40, "40 days")):
        then = now - datetime.timedelta(seconds=ago)
        assert choices._age(then.strftime("%Y-%m-%d %H:%M:%S")) == said
    assert choices._age("some day") == "some day"


def test_doctor_counts_answers(capsys: pytest.CaptureFixture[str]) -> None:
    log().add(
        [sample(1), sample(2)._replace(place=Place.of(CPU())), sample(3, "timed")._replace(place=Place.of(CPU()))]
    )
    assert cli.main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["tuned"]
    assert (found["answers_here"], found["answers_elsewhere"], found["hints"]) == (1, 1, 1)


def test_words_may_come_before_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tune", "--budget", "2s", "nowhere.py"]) == 1
    assert "there is no file nowhere.py" in capsys.readouterr().err


def test_choices_travel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "file.log")
    log().add([sample(1), sample(2, "timed")])
    assert cli.main(["tune", "export", file]) == 0
    assert "wrote 1 choices" in capsys.readouterr().out
    assert cli.main(["tune", "export", file, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": file, "choices": 1}
    (tmp_path / "train.py").write_text("print()", encoding="utf-8")
    assert cli.main(["tune", "export", str(tmp_path / "train.py")]) == 1
    assert "holds no choices" in capsys.readouterr().err
    with configure(data_dir=tmp_path / "other"):
        assert cli.main(["tune", "import", file]) == 0
        assert "took 1 choices as hints" in capsys.readouterr().out
        assert [record.state for record in log().load().records] == ["imported"]
        assert cli.main(["tune", "import", "--trust", file]) == 0
        assert cli.main(["tune", "forget", "--last"]) == 0
        assert cli.main(["tune", "import", str(tmp_path / "missing")]) == 1
        (tmp_path / "letter").write_text("dear database\n")
        assert cli.main(["tune", "import", str(tmp_path / "letter")]) == 1, "no choices in it"
    with configure(data_dir=""):
        assert cli.main(["tune", "list"]) == 1
    assert "SMELT_DATA_DIR" in capsys.readouterr().err


def test_what_was_tried_and_lost_is_no_hint(capsys: pytest.CaptureFixture[str]) -> None:
    lost = sample(1, "timed")._replace(place=Place.of(CPU()))
    log().add([lost._replace(evidence=lost.evidence._replace(ratio=0.8))])
    assert cli.main(["tune", "list"]) == 0
    assert "not used: no faster" in capsys.readouterr().out
    assert cli.main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["tuned"]
    assert (found["answers_here"], found["answers_elsewhere"], found["hints"]) == (0, 0, 0)
