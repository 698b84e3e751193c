"""Takes graphs; gives graphs of their derivatives, and of the same for a batch.

`vjp` pulls cotangents back through a graph, `jvp` pushes tangents forward, `batch` adds an axis. Always holds: nothing
is computed and no node changes; each op has one rule, in one table; what does not depend on the inputs in question is
left alone; graphs of any depth are walked without recursion; what comes out is made of the same ops as what went in, so
that every transform can be applied again.
"""

from smelt.derive.batch import batch_dependent
from smelt.derive.custom import Call, Custom, Stopped, Variable, stopped
from smelt.derive.moves import filled, zeros
