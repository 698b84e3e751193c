"""A model that was trained, beside transformers with the same weights in float32: `SMELT_TEST_GGUF` is its file."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from smelt import llm
from smelt.llm.conversion import convert
from smelt.llm.engine import Request

torch: Any = pytest.importorskip("torch", reason="peers: torch is not installed")
transformers: Any = pytest.importorskip("transformers", reason="peers: transformers is not installed")

MODEL = os.environ.get("SMELT_TEST_GGUF")
pytestmark = [pytest.mark.peers, pytest.mark.skipif(not MODEL, reason="SMELT_TEST_GGUF is not set")]

COUNT = 64
TIE = 1e-3  # between the two most likely tokens: either may come first
PROMPTS = (
    "The capital of France is",
    "Once upon a time",
    "def fibonacci(n):",
    "Water boils at",
    "The three primary colors are",
    "In 1969, humans",
    "Question: What is 7 times 8?\nAnswer:",
    "To make a cup of tea, first",
    "The largest planet of the solar system",
    "Dear Sir or Madam,",
    "import numpy as np\n\n",
    "Die Hauptstadt von Deutschland ist",
    "A recipe for bread:",
    "The meaning of the word 'compiler' is",
    "1, 1, 2, 3, 5, 8,",
    "She opened the door and",
    "The history of the Roman Empire begins",
    "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\n",
    "SELECT name FROM users WHERE",
    "If it rains tomorrow,",
)


class Reference(NamedTuple):
    """What transformers writes, and how far the two most likely tokens are apart each time."""

    tokens: list[int]
    margins: list[float]


def reference(peer: Any, prompt: Sequence[int], never: Sequence[int]) -> Reference:
    """The most likely tokens, one by one, behind a cache."""
    tokens, margins, past = list[int](), list[float](), None
    given = torch.tensor([prompt])
    with torch.inference_mode():
        for _ in range(COUNT):
            found = peer(given, past_key_values=past, use_cache=True)
            past, logits = found.past_key_values, found.logits[0, -1]
            logits[list(never)] = -np.inf
            best = logits.topk(2)
            tokens.append(int(best.indices[0]))
            margins.append(float(best.values[0] - best.values[1]))
            given = best.indices[:1][None]
    return Reference(tokens, margins)


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = convert(Path(str(MODEL)), tmp_path_factory.mktemp("peer") / "model", "f32").path
    yield transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="float32", local_files_only=True).eval()


def written(model: llm.LanguageModel, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
    """The most likely tokens behind all prompts, as many at once as there are slots."""
    never = llm.Sampling(temperature=0.0, bias=dict.fromkeys(model.tokenizer.stops, -float("inf")))
    found: list[list[int]] = [[] for _ in prompts]
    left = threading.Semaphore(0)

    def deliver(place: int, event: Any) -> None:
        found[place] += [] if event.choice is None else [event.choice.token]
        if event.reason is not None:
            left.release()

    for place, prompt in enumerate(prompts):
        request = Request(prompt, never, COUNT, deliver=lambda event, place=place: deliver(place, event))
        model.engine.submit(request)
    for _ in prompts:
        assert left.acquire(timeout=600)
    return found


def test_texts_are_those_of_transformers_with_the_same_numbers(peer: Any) -> None:
    with llm.load(str(MODEL), slots=4, context=256, exact=True) as model:
        prompts = [model.tokenizer.encode(text, special=True) for text in PROMPTS]
        texts = written(model, prompts)
        stops = sorted(model.tokenizer.stops)
    for text, prompt, ours in zip(PROMPTS, prompts, texts, strict=True):
        theirs = reference(peer, prompt, stops)
        assert len(ours) == COUNT
        parts = next((n for n in range(COUNT) if ours[n] != theirs.tokens[n]), COUNT)
        margin = theirs.margins[parts] if parts < COUNT else min(theirs.margins)
        print(f"{text!r:.40}: {parts} tokens alike, {'' if parts < COUNT else 'smallest '}margin {margin:.2g}")
        assert parts == COUNT or margin < TIE, (text, ours, theirs)
