"""An HTTP server that speaks OpenAI's protocol: `smelt serve`.

Takes a `LanguageModel`; gives an ASGI application. Always holds: what a client sends is checked before the engine hears
of it; a client that goes away is cancelled within a step; errors have OpenAI's shape and a fitting status.
"""

from __future__ import annotations

from smelt.llm.serve.app import LOOPBACK, Limits, application, run

__all__ = ["LOOPBACK", "Limits", "application", "run"]
