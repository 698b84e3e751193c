"""Kernels: regions say what is computed, schedules say how, Kernel IR is the result.

Takes a `Region` (expressions over named axes) and a schedule (a tuple of actions); `lower` gives a `Kernel`, a loop
tree over small tiles that renderers spell out. Any legal schedule, also the empty one, gives a correct kernel; a
schedule that does not fit raises `Illegal`. Kernels and schedules have text forms that print and parse; `verify` checks
a kernel, `interpret` runs it slowly on NumPy arrays.
"""

from smelt.kernel.actions import Action, Keep, Schedule, parse_action, parse_schedule, print_schedule
from smelt.kernel.actions.cuts import TAILS, Split
from smelt.kernel.actions.hints import Grain, Prefetch, Shares, Transpose
from smelt.kernel.actions.loops import Bind, Order, Unroll
from smelt.kernel.actions.matrix import Matrix
from smelt.kernel.actions.online import Online
from smelt.kernel.actions.outputs import Apart, Stream, Together
from smelt.kernel.actions.skip import Skip
from smelt.kernel.actions.stage import Stage
from smelt.kernel.instructions import Block, Instruction, Tiles, rows_of, tiles_of
from smelt.kernel.interpret import interpret
from smelt.kernel.ir import (
    DOTS,
    PRODUCTS,
    Accumulator,
    Ask,
    Barrier,
    Compute,
    For,
    If,
    Kernel,
    Let,
    Load,
    Local,
    Part,
    Reduce,
    Scan,
    Statement,
    Store,
    Update,
    Value,
    defines,
    reads,
    statements,
)
from smelt.kernel.laws import Follower, followers, follows
from smelt.kernel.lowering.lower import lower
from smelt.kernel.lowering.plan import Illegal
from smelt.kernel.region import (
    Access,
    Buffer,
    Expression,
    Fold,
    Less,
    Mask,
    Output,
    Place,
    Region,
    extent,
    mask_expression,
    variables_of,
    walk,
)
from smelt.kernel.routine import Routine, Step, Temporary, print_routine
from smelt.kernel.rules import verify_region
from smelt.kernel.series import Series, pieces, print_series
from smelt.kernel.text import parse_kernel, parse_region, print_kernel, print_region
from smelt.kernel.verify import verify
