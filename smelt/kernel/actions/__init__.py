"""Schedules as data: a schedule is a tuple of actions, each a small frozen record with a text form.

An action cuts an axis, orders loops, or says where values live. It never changes what is computed. Actions are checked
when a region is lowered with them: one that is not legal raises `Illegal` and is never repaired. Loops are named
`axis.0` (the outermost part), `axis.1`, …; nodes by the names of `Region.named`.

Each file holds one or a few actions with all that belongs to them: the record and its text, the checks, and the handler
that lowering calls at its hook points. `ACTIONS` is the table of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from smelt.graph import forms
from smelt.kernel.actions.action import Action as Action
from smelt.kernel.actions.cuts import Split
from smelt.kernel.actions.hints import Grain, Prefetch, Shares, Transpose
from smelt.kernel.actions.keep import Keep as Keep
from smelt.kernel.actions.keep import Keeps
from smelt.kernel.actions.loops import Bind, Order, Unroll
from smelt.kernel.actions.matrix import Instructions, Matrix
from smelt.kernel.actions.online import Online, OnlineLoops
from smelt.kernel.actions.outputs import Apart, SharedLoops, Stream, Together, WaitingSums
from smelt.kernel.actions.skip import Skip, Skips
from smelt.kernel.actions.stage import Stage, Stages
from smelt.kernel.lowering.hooks import Handler

Schedule = tuple[Action, ...]

# Every kind of action and its handler, which does nothing where the plan says all. Checks that concern several actions,
# and handlers where several have something to do, come in this order.
ACTIONS: dict[type[Action], type[Handler]] = {
    **{Split: Handler, Order: Handler, Bind: Handler, Unroll: Handler, Stream: Handler},
    Stage: Stages,
    Keep: Keeps,
    Together: SharedLoops,
    Apart: WaitingSums,
    Online: OnlineLoops,
    Skip: Skips,
    Matrix: Instructions,
    **{Prefetch: Handler, Transpose: Handler, Grain: Handler, Shares: Handler},
}
_WORDS = {kind.form.split()[0]: kind for kind in ACTIONS}


def print_schedule(schedule: Iterable[Action]) -> str:
    """One action a line."""
    return "\n".join(str(action) for action in schedule)


def parse_schedule(text: str) -> Schedule:
    """The schedule that `print_schedule` printed; semicolons separate actions like line ends."""
    lines = (line.strip() for line in re.split(r"[\n;]", text))
    return tuple(parse_action(line) for line in lines if line)


def parse_action(text: str) -> Action:
    """One action."""
    line = forms.Line(text)
    if line.token not in _WORDS:
        line.unknown("an action", line.token, _WORDS)
    action = _WORDS[line.token].parse(line)
    line.end()
    return action
