"""Jinja templates of models, rendered in a process of their own.

A template is a program that came with a file. Jinja's sandbox keeps it from reaching Python, but not from counting to
2^64, from doubling a text forty times, or from padding one to a terabyte: there are too many ways to forbid one by
one. The operating system limits time and memory of a process, whatever the template does, so templates are rendered by
a child that is kept for the next prompt, and started anew if it was killed. This file is its program too, and it
imports nothing of smelt, so that the child starts in a tenth of a second.

Lines of JSON go in (template and variables) and out ("text", or "error" and its kind).
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from functools import cache
from typing import Any, Final

LONGEST_TEXT: Final = 1 << 20
_SECONDS: Final = 0.7  # of computing; templates in use take a thousandth
_MEMORY: Final = 512 << 20


def rendered(template: str, variables: dict[str, Any]) -> str:
    """The text that a template makes of variables, at most a million characters of it."""
    pieces, length = [], 0
    for piece in _compiled(template).generate(**variables):
        length += len(piece)
        if length > LONGEST_TEXT:
            raise ValueError(f"it writes more than {LONGEST_TEXT} characters")
        pieces.append(piece)
    return "".join(pieces)


@cache
def _compiled(template: str) -> Any:
    return _environment().from_string(template)


@cache
def _environment() -> Any:
    """Jinja as templates of models expect it: what transformers gives them."""
    from jinja2.exceptions import SecurityError, TemplateError
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.utils import Namespace

    class Generation(Extension):  # type: ignore[misc]
        """`{% generation %}`, by which training programs find answers: its contents."""

        tags: Final = {"generation"}

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(["name:endgeneration"], drop_needle=True)

    class Attributes(Namespace):  # type: ignore[misc]
        """A namespace without names that Python uses itself."""

        def __setitem__(self, name: str, value: Any) -> None:
            if name.startswith("_"):
                raise SecurityError(f"namespaces have no attribute {name!r}")
            super().__setitem__(name, value)

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    def tojson(
        value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
    ) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = tojson
    environment.globals |= {
        "raise_exception": raise_exception,
        "strftime_now": lambda form: datetime.now().strftime(form),
        "namespace": Attributes,
    }
    return environment


def answer(request: str) -> dict[str, str]:
    """What is answered to a line: never an exception."""
    from jinja2.exceptions import TemplateError, TemplateSyntaxError

    try:
        asked = json.loads(request)
        return {"text": rendered(asked["template"], asked["variables"])}
    except TemplateSyntaxError as error:
        return {"error": f"line {error.lineno}: {error.message}", "kind": "syntax"}
    except TemplateError as error:
        return {"error": str(error), "kind": "refused"}
    except MemoryError:
        return {"error": f"it needs more than {_MEMORY >> 20} MB", "kind": "limit"}
    except RecursionError:
        return {"error": "it calls itself without end", "kind": "limit"}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:500], "kind": "failed"}


def main() -> None:
    """Answer lines, each within its limits; the system ends the process if one takes longer."""
    import resource
    import signal

    answer('{"template": "", "variables": {}}')  # imports come before the limits
    for limit, most in ((resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NOFILE, 16)):
        resource.setrlimit(limit, (most, most))
    for line in sys.stdin:
        # Nobody handles its signal, so it ends the process.
        signal.setitimer(signal.ITIMER_PROF, _SECONDS)
        sys.stdout.write(json.dumps(answer(line)) + "\n")
        sys.stdout.flush()
        signal.setitimer(signal.ITIMER_PROF, 0)


if __name__ == "__main__":
    main()
