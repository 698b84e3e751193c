"""A model that was trained: what it writes is what NumPy makes of its numbers, and a story."""

from __future__ import annotations

from pathlib import Path

import pytest

from smelt import llm
from tests.llm import stories

COUNT = 120


@pytest.mark.by_turns(3)
def test_the_tokens_are_those_of_numpy(tmp_path: Path) -> None:
    try:
        tensors = stories.write(tmp_path / "stories.gguf")
    except stories.NotHere as reason:
        pytest.skip(str(reason))
    expected = stories.greedy(tensors, COUNT)
    with llm.load(str(tmp_path / "stories.gguf"), exact=True, context=stories.CONTEXT) as model:
        answer = model.generate([stories.BOS], llm.Sampling(temperature=0.0), max_tokens=COUNT)
    assert answer.tokens == expected
    assert answer.text.startswith(" Once upon a time, there was a little girl named Lily.")
