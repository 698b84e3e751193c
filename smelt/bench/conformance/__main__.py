"""`python -m smelt.bench.conformance`: what `smelt bench conformance` does."""

from __future__ import annotations

import sys

from smelt.bench.conformance.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], program="python -m smelt.bench.conformance"))
