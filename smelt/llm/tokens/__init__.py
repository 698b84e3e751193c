"""Text to tokens and back, as the files of models describe it."""

from __future__ import annotations
