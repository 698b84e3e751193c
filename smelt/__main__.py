"""`python -m smelt`: what `smelt` does."""

from __future__ import annotations

import sys

from smelt.cli import main

if __name__ == "__main__":
    sys.exit(main())
