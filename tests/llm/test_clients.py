"""Many clients of one server: what they measure, of smelt's own and of one that refuses."""

from __future__ import annotations

import json

import pytest

from smelt.cli import main
from smelt.llm import clients
from smelt.llm.hosted import Hosted, Said
from tests.llm.test_serve import served


@pytest.mark.parametrize("chat", [False, True])
def test_all_requests_are_answered_and_counted(chat: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with served(context=256) as client:
        words = ["llm-bench", "--server", f"http://127.0.0.1:{client.port}/v1", "--clients", "3", "--requests", "7"]
        words += ["-p", "4", "-n", "5", "--fields", '{"logit_bias": {"128": -100}}', "--json", *["--chat"] * chat]
        assert main(words) == 0
        row = json.loads(capsys.readouterr().out)["rows"][0]
        assert (row["contender"], row["errors"], row["first_error"]) == ("127.0.0.1: tiny", 0, None)
        assert row["tokens"] == 7 * 5
        assert row["prompt_tokens"] > 7 * 4
        assert 0 < row["first_token_p50"] <= row["first_token_p95"]
        assert row["first_token_p50"] <= row["request_p50"] <= row["request_slowest"] <= row["seconds"]
        assert main(words[: -1 - chat]) == 0
        assert "7 requests by 3 clients, 0 failed" in capsys.readouterr().out


def test_requests_that_fail_are_counted_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    with served(context=64) as client:
        words = ["llm-bench", "--server", f"http://127.0.0.1:{client.port}/v1", "--clients", "2", "--requests", "5"]
        assert main([*words, "-p", "64"]) == 1
        told = capsys.readouterr().out
        assert "5 failed" in told
        assert "share a context of 64" in told
        assert main([*words, "--fields", '{"made_up": 1}', "-p", "2"]) == 1
        assert "there is no argument 'made_up'" in capsys.readouterr().out


def test_servers_are_asked_the_same_and_nothing_twice() -> None:
    with served(context=512) as client:
        asked: list[list[list[int]]] = []
        true = client.model.tokens
        api = Hosted(f"http://127.0.0.1:{client.port}/v1")
        for seed in (1, 1, 2):
            prompts: list[list[int]] = []
            client.model.tokens = lambda prompt, tools=(), to=prompts: to.append(true(prompt)) or to[-1]  # type: ignore
            clients.load(api, "tiny", clients=1, requests=4, read=8, write=1, seed=seed)
            asked.append(prompts)
        assert asked[0] == asked[1] != asked[2]
        assert len({tuple(prompt) for prompt in asked[0]}) == 4


def test_figures() -> None:
    said = [Said("x", "", 10, 5, 0.01 * n, 0.1 * n) for n in range(1, 101)]
    found = clients.figures(said, 50.0)
    assert (found["tokens_per_second"], found["total_tokens_per_second"]) == (10.0, 30.0)
    assert (found["first_token_p50"], found["first_token_p95"]) == (0.505, 0.96)
    assert found["slowest_over_median"] == pytest.approx(10 / 5.05, abs=1e-3)
    assert "request_p50" not in clients.figures([], 1.0)
