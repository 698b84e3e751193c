"""An HTTP server that speaks OpenAI's protocol: `smelt serve`.

Takes a `LanguageModel`; gives an ASGI application. Always holds: what a client sends is checked before the engine hears
of it; what was read for one key is neither used for another nor told; a client that goes away is cancelled within a
step; errors have OpenAI's shape and a fitting status.
"""

from __future__ import annotations

from smelt.llm.serve.app import LOOPBACK, Limits, application, bound, run
from smelt.llm.serve.keys import gathered

__all__ = ["LOOPBACK", "Limits", "application", "bound", "gathered", "run"]
