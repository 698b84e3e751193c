"""What is known to be better than the default schedules: found by measuring, kept from process to process.

Takes regions; gives schedules that were measured to be faster, to whoever compiles. Always holds: compiling never
measures anything; an answer counts only where it was measured, and only if it still renders to what was measured.
"""

from smelt.search.tuned import Tuned

__all__ = ["Tuned"]
