"""A learning rate that becomes smaller when the network no longer becomes better."""

from __future__ import annotations

import math
from typing import Any

from smelt.dtypes import float32
from smelt.errors import ArgumentError
from smelt.optim.core import check_rate
from smelt.shown import Shown
from smelt.tensor import Tensor, full

__all__ = ["ReduceOnPlateau"]


class ReduceOnPlateau(Shown):
    """Times `factor` once a number has not become better for more than `patience` calls of `step`.

    It lives in Python, between the steps of training. Its `rate` is a tensor: handed to a compiled step as an argument,
    and there to `optimizer.update(..., lr=rate)`, it needs no new trace when it changes. Better means smaller, or with
    `mode="max"` larger, by the threshold: a share of the best ("rel") or a difference ("abs"). After a change,
    `cooldown` calls do not count.

    >>> import smelt as sm
    >>> plateau = sm.optim.ReduceOnPlateau(0.5, factor=0.5, patience=1)
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     plateau.step(loss)
    >>> plateau.rate.item()
    0.25
    """

    def __init__(
        self,
        lr: float,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0.0,
        eps: float = 1e-8,
    ) -> None:
        check_rate(lr, "ReduceOnPlateau")
        if mode not in ("min", "max"):
            raise ArgumentError(f"ReduceOnPlateau: mode is {mode!r:.80}", rule='it must be "min" or "max".')
        if threshold_mode not in ("rel", "abs"):
            raise ArgumentError(
                f"ReduceOnPlateau: threshold_mode is {threshold_mode!r:.80}", rule='it must be "rel" or "abs".'
            )
        if not 0 < factor < 1:
            raise ArgumentError(f"ReduceOnPlateau: factor is {factor!r:.80}", rule="it must be between 0 and 1.")
        self.mode, self.factor, self.patience, self.threshold = mode, factor, patience, threshold
        self.threshold_mode, self.cooldown, self.min_lr, self.eps = threshold_mode, cooldown, min_lr, eps
        self._state = {"lr": float(lr), "best": math.inf if mode == "min" else -math.inf, "bad": 0, "waiting": 0}
        self._tensor: Tensor | None = None

    def __repr__(self) -> str:
        return super().__repr__().replace("(", f"(lr={self._state['lr']}, ", 1)

    @property
    def rate(self) -> Tensor:
        """The rate as it is now."""
        if self._tensor is None:
            self._tensor = full((), self._state["lr"], dtype=float32).realize()
        return self._tensor

    def step(self, metric: Any) -> None:
        """Look at a number, such as the loss on data that is not trained on."""
        now, state = float(metric), self._state
        if self._is_better(now):
            state["best"], state["bad"] = now, 0
        else:
            state["bad"] += 1
        if state["waiting"] > 0:
            state["waiting"] -= 1
            state["bad"] = 0
        if state["bad"] > self.patience:
            lower = max(state["lr"] * self.factor, self.min_lr)
            if state["lr"] - lower > self.eps:
                state["lr"], self._tensor = lower, None
            state["waiting"], state["bad"] = self.cooldown, 0

    def _is_better(self, now: float) -> bool:
        best, sign = self._state["best"], 1 if self.mode == "min" else -1
        if math.isinf(best):
            return sign * now < sign * best
        margin = self.threshold * (best if self.threshold_mode == "rel" else 1.0)
        return sign * now < sign * best - margin

    def state_dict(self) -> dict[str, float]:
        """What to save: four numbers."""
        return dict(self._state)

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Go on from what was saved."""
        if set(state) != set(self._state):
            raise ArgumentError(
                f"ReduceOnPlateau: the state has {sorted(state)}", rule=f"it must have {sorted(self._state)}."
            )
        self._state, self._tensor = dict(state), None
