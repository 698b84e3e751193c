"""Language models: files and names to a model, text to tokens, and tokens one after the other.

Everything here is ordinary tensor code and uses of the public API; nothing below knows that it exists.

    from smelt import llm

    with llm.load("smollm2") as model:
        for text in model.chat([{"role": "user", "content": "What is the capital of France?"}]):
            print(text, end="", flush=True)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smelt.llm.conversion import convert
    from smelt.llm.language import Answer, LanguageModel
    from smelt.llm.loading import load
    from smelt.llm.sampling import Sampling

__all__ = ["load", "convert", "LanguageModel", "Answer", "Sampling"]

_WHERE = {
    "load": "loading",
    "convert": "conversion",
    "LanguageModel": "language",
    "Answer": "language",
    "Sampling": "sampling",
}


def __getattr__(name: str) -> Any:
    """What is named above, loaded when it is asked for."""
    if name not in _WHERE:
        raise AttributeError(f"module 'smelt.llm' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"smelt.llm.{_WHERE[name]}"), name)
