"""`python -m smelt.bench`: what `smelt bench` does."""

from __future__ import annotations

import sys

from smelt.bench.command import main

if __name__ == "__main__":
    sys.exit(main(program="python -m smelt.bench"))
