"""Many clients of one server at once: how many tokens all get in a second, and how long each waits.

Any API of OpenAI's shape will do. Each client sends a request, reads the stream of its answer to the end, and sends the
next one. Prompts are words drawn by a seed, each prompt its own, so that servers of the same seed are asked the same,
and none finds a prompt in its cache.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any, Final

from smelt.errors import SmeltError
from smelt.llm.hosted import Hosted, Said

__all__ = ["figures", "load"]

# Words that most vocabularies have as one token behind a space.
_WORDS: Final = """time year people way day man thing woman life child world school state family student group country
hand part place case week company system program question work government night home water room mother area
money story fact month lot right study book eye job word business issue side kind head house service friend father
power hour game line end member law car city name president team minute idea body back parent face others level
office door health person art war history party result change morning reason research girl moment air teacher force
"""
_MOST_ERRORS: Final = 20  # after which a server is not asked any more


def load(
    api: Hosted,
    model: str,
    *,
    clients: int = 8,
    requests: int = 200,
    read: int = 64,
    write: int = 64,
    chat: bool = False,
    fields: Mapping[str, Any] | None = None,
    seed: int = 0,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Send `requests` by so many `clients` at once, each of about `read` tokens for `write` more; the figures.

    Texts are continued, or messages answered where it is a `chat`. `fields` are sent along with each request, such as
    biases against the end of a text.
    """
    said: list[Said] = []
    errors: list[str] = []
    words = _WORDS.split()

    def ask(number: int) -> None:
        if len(errors) >= _MOST_ERRORS:
            return
        # One token begins most prompts.
        prompt = " ".join(random.Random(f"{seed}/{number}").choices(words, k=max(read - 1, 1)))
        what = {"messages": [{"role": "user", "content": prompt}]} if chat else {"prompt": prompt}
        asked = {"model": model, "max_tokens": write, "temperature": 0, **what, **(fields or {})}
        try:
            said.append(api.streamed("/chat/completions" if chat else "/completions", asked))
        except SmeltError as error:
            errors.append(error.told)
        report(len(said) + len(errors), requests)

    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(ask, range(requests)))
    return figures(said, time.perf_counter() - began) | {
        "contender": f"{api.name}: {model}",
        "clients": clients,
        "requests": requests,
        "errors": requests - len(said),
        "first_error": errors[0] if errors else None,
    }


def figures(said: Sequence[Said], seconds: float) -> dict[str, Any]:
    """What answers that took so many seconds together say of a server; times of single ones are in seconds."""
    read, wrote = sum(one.prompt_tokens for one in said), sum(one.tokens for one in said)
    firsts, wholes = sorted(one.first for one in said), sorted(one.seconds for one in said)
    found: dict[str, Any] = {
        "prompt_tokens": read,
        "tokens": wrote,
        "seconds": round(seconds, 3),
        "tokens_per_second": round(wrote / seconds, 2),
        "total_tokens_per_second": round((read + wrote) / seconds, 2),
    }
    if said:
        found |= {
            "first_token_p50": round(median(firsts), 4),
            "first_token_p95": round(firsts[min(len(firsts) * 95 // 100, len(firsts) - 1)], 4),
            "request_p50": round(median(wholes), 4),
            "request_slowest": round(wholes[-1], 4),
            "slowest_over_median": round(wholes[-1] / median(wholes), 3),
        }
    return found
