"""Find the two sides of a quarrel with a graph network that is told one member of each.

What one learns here: graphs as pairs of node numbers, graph convolutions, a loss over a few nodes only, a training loop
without a loader, and that a compiled step may refer to tensors around it.

    python examples/karate_gcn.py

In 1977 W. W. Zachary described a karate club of 34 members that split over a quarrel of its instructor (node 0) and its
administrator (node 33): who talked to whom outside of the club, and on which side everybody was afterwards. The network
knows who talked to whom, and the side of these two. It finds the side of at least 30 of 34.

The data: W. W. Zachary, "An Information Flow Model for Conflict and Fission in Small Groups", Journal of
Anthropological Research 33 (1977), 452-473; members are numbered from 0.
"""

from __future__ import annotations

import argparse

import smelt as sm

# For each member, those with a higher number whom he talked to.
FRIENDS = {
    0: [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 17, 19, 21, 31],
    1: [2, 3, 7, 13, 17, 19, 21, 30],
    2: [3, 7, 8, 9, 13, 27, 28, 32],
    3: [7, 12, 13],
    4: [6, 10],
    5: [6, 10, 16],
    6: [16],
    8: [30, 32, 33],
    9: [33],
    13: [33],
    14: [32, 33],
    15: [32, 33],
    18: [32, 33],
    19: [33],
    20: [32, 33],
    22: [32, 33],
    23: [25, 27, 29, 32, 33],
    24: [25, 27, 31],
    25: [31],
    26: [29, 33],
    27: [33],
    28: [31, 33],
    29: [32, 33],
    30: [32, 33],
    31: [32, 33],
    32: [33],
}
INSTRUCTOR = {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 16, 17, 19, 21}  # who went with him


class Net(sm.nn.Module):
    """Two graph convolutions: a member sees his friends, and the friends of his friends."""

    def __init__(self, nodes: int, hidden: int) -> None:
        self.first = sm.nn.GCNConv(nodes, hidden)
        self.second = sm.nn.GCNConv(hidden, 2)

    def __call__(self, x: sm.Tensor, edges: sm.Tensor) -> sm.Tensor:
        return self.second(self.first(x, edges).tanh(), edges)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=200, help="updates of the weights")
    parser.add_argument("--hidden", type=int, default=16, help="features of a member between the two layers")
    parser.add_argument("--seed", type=int, default=0, help="of the weights")
    parser.add_argument("--quick", action="store_true", help="a few steps only: is everything in its place?")
    options = parser.parse_args()

    sm.random.seed(options.seed)
    pairs = [(a, b) for a, others in FRIENDS.items() for b in others]
    edges = sm.asarray(pairs + [(b, a) for a, b in pairs]).T  # (2, edges), in both directions
    side = sm.asarray([0 if member in INSTRUCTOR else 1 for member in range(34)])
    features = sm.eye(34)  # nothing is known of a member but who he is
    told = sm.asarray([0, 33])

    model = Net(34, options.hidden)
    optimizer = sm.optim.AdamW(lr=0.01, weight_decay=0.05)
    state = optimizer.init(model)

    def loss_of(model: Net) -> sm.Tensor:
        scores = model(features, edges)
        return sm.nn.losses.cross_entropy(scores[told], side[told])

    @sm.jit(donate=(0, 1))
    def step(model, state):
        loss, gradients = sm.value_and_grad(loss_of)(model)
        model, state = optimizer.update(model, gradients, state)
        return model, state, loss

    steps = 20 if options.quick else options.steps
    with sm.train.Progress(total=steps, label="training") as bar:
        for _ in range(steps):
            model, state, loss = step(model, state)
            bar.advance(loss=loss)

    found = model(features, edges).argmax(axis=1)
    wrong = [member for member, right in enumerate((found == side).tolist()) if not right]
    print(f"with the instructor:    {[m for m, s in enumerate(found.tolist()) if s == 0]}")
    print(f"with the administrator: {[m for m, s in enumerate(found.tolist()) if s == 1]}")
    print(f"wrong: {wrong}")
    print(f"members on the right side: {34 - len(wrong)} of 34")
    if options.quick:
        print("This was a quick trial: without --quick, at least 30 are on the right side.")


if __name__ == "__main__":
    main()
