"""What is decided about a kernel is kept and shown, also what stood against better candidates."""

from __future__ import annotations

import numpy as np

import smelt as sm
from smelt.transform.explain import examine

X = sm.asarray(np.ones((37, 53), np.float32))


def test_a_kernel_says_which_form_was_taken_and_why_not_another_one() -> None:
    found = examine(lambda x: (x.exp() / x.exp().sum()).sum(-1), X)
    (kernel,) = found.kernels
    assert kernel.form.startswith("rows (vector ")
    assert kernel.refused == ("rows: keep: a node in the output must have the output's own axes",)
    text = str(found)
    assert f"schedule of {kernel.name}: {kernel.form}\n" in text
    assert "refused: rows: keep: a node in the output must have the output's own axes" in text


def test_passes_that_depend_on_the_device_are_shown() -> None:
    found = examine(lambda x: x.sum(), sm.ones((2048, 512)))
    assert "=== graph, long sums in pieces (reassociates)\n" in str(found)
    assert "divides last" not in str(found)  # which had nothing to do


def test_what_is_stored_says_why() -> None:
    found = str(examine(lambda x: (x.exp().sum(0), x.exp().sum(1)), sm.ones((512, 512))))
    assert "=== what is stored, and why\n" in found
    assert "it is a result, or has to be read as a whole" in found


def test_forms_of_common_kernels() -> None:
    w = sm.ones((53, 56))
    forms = {
        "tiled": lambda x: x @ w,
        "streamed": lambda x: x[:1] @ w,
        "rows": lambda x: x.softmax(-1),
        "elementwise": lambda x: x + 1,
        "scan": lambda x: x.cumulative_sum(axis=1),
        "routine": lambda x: sm.sort(x, axis=1),
    }
    found = {form: examine(f, X).kernels[0].form for form, f in forms.items()}
    assert {form: title.partition(" (")[0] for form, title in found.items()} == {form: form for form in forms}
    assert "height 6" in found["tiled"] and "unroll 2" in found["tiled"]
