"""Language models: files and names to a model, text to tokens, and tokens one after the other.

Everything here is ordinary tensor code and uses of the public API; nothing below knows that it exists.
"""

from __future__ import annotations
