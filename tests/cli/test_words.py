"""Words of commands that are wrong: what was meant, and nothing opened before they are checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from smelt.cli import main
from smelt.config import configure


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["genrate", "x"], "did you mean generate?"),
        (["serv"], "did you mean serve?"),
        (["doktor"], "did you mean doctor?"),
        (["chat", "--tempratur", "0"], "did you mean --temperature?"),
        (["generate", "x", "--max_token=4", "--gredy"], "did you mean --greedy?"),
        (["serve", "--api_key", "x"], "did you mean --api-key?"),
        (["models", "verfy", "smollm2"], "did you mean verify?"),
        (["tune", "shw"], "did you mean show?"),
        (["tune", "list", "--jsn"], "did you mean --json?"),
    ],
)
def test_words_that_are_nearly_right(words: list[str], meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert meant in capsys.readouterr().err


def test_words_like_no_other_are_only_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["frobnicate"], ["generate", "x", "--frobnicate"]):
        with pytest.raises(SystemExit):
            main(words)
        assert "did you mean" not in capsys.readouterr().err


def test_models_that_are_nearly_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with configure(data_dir=tmp_path):
        assert main(["generate", "x", "--model", "smollm"]) == 1
        assert "Did you mean smollm2?" in capsys.readouterr().err
    (tmp_path / "story.gguf").touch()
    assert main(["generate", "x", "--model", str(tmp_path / "stories.gguf")]) == 1
    assert "Did you mean story.gguf?" in capsys.readouterr().err
    assert main(["llm-bench", "--peers", "lama.cpp"]) == 1
    assert "Did you mean llama.cpp?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["generate", "x", "--temperature", "-1"],
        ["generate", "x", "--top-p", "2"],
        ["generate", "x", "-n", "0"],
        ["generate", "x", "--logprobs", "21"],
        ["generate", "x", "--seed", "-1"],
        ["generate", "x", "--context", "1"],
        ["generate", "x", "--adapter", "no-such-folder"],
        ["chat", "--min-p", "2"],
        ["chat", "-n", "none"],
        ["serve", "--slots", "65"],
        ["serve", "--timeout", "nan"],
        ["serve", "--max-tokens", "0"],
        ["compare", "x", "-n", "0"],
        ["convert", "smollm2", "model.gguf", "--type", "q9"],
        ["convert", "smollm2", "model.txt"],
        ["llm-bench", "--peers", "nobody"],
        ["llm-bench", "-r", "0"],
    ],
)
def test_options_are_checked_before_anything_is_opened(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*_: object, **__: object) -> None:
        raise AssertionError("it was opened")

    monkeypatch.setattr("smelt.llm.models.find", opened)
    monkeypatch.setattr("smelt.llm.hosted.found_in", opened)
    try:
        status = main(words)
    except SystemExit as ended:
        status = int(str(ended.code))
    assert status in (1, 2)
    assert capsys.readouterr().err
