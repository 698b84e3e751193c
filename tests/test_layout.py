"""The shape of the source tree: who may import whom, how long files are, and what is never written."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "smelt"

FRONT_DOOR = "smelt"  # `import smelt` itself: smelt/__init__.py

# The pipeline. Each name imports only from those before it; whoever comes after the front door may use the public API.
LAYOUT = (
    *("errors", "brought", "names", "shown", "config", "tracebacks", "dtypes", "tree", "locks", "diskcache", "stated"),
    *("graph", "derive", "rewrite", "kernel", "cost", "egraph", "fuse", "schedule", "render", "device"),
    *("plan", "compiler", "search", "runtime", "tensor", "transform", "debug", "doors", "tuning"),
    *("fft", "linalg", "nn", "optim", "formats", "frontends", "train", "data"),
    FRONT_DOOR,
    *("llm", "bench", "view", "cli", "__main__"),
)
RANK = {name: rank for rank, name in enumerate(LAYOUT)}

# These load what users ask for when they ask for it, so imports inside their functions may go anywhere.
LAZY_DOORS = frozenset({FRONT_DOOR, "cli"})

MAXIMUM_LINES = 600
MAXIMUM_FUNCTION = 60
MOST_DEEP_IMPORTS = 141  # there were 822
UNSAFE_MODULES = frozenset({"pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"})
UNSAFE_CALLS = frozenset({"eval", "exec", "__import__", "os.system", "os.popen", "builtins.eval", "builtins.exec"})
UNSAFE_FLAGS = frozenset({"shell", "allow_pickle"})
UNSAFE_WORD = re.compile(
    rf"\b(?:{'|'.join(sorted(UNSAFE_MODULES | UNSAFE_FLAGS | {name.rpartition('.')[2] for name in UNSAFE_CALLS}))})\b"
)
HOME_DIRECTORY = re.compile(r"(?<![\w.])/(?:home|Users|root)/\w|[A-Z]:\\Users\\")
TEXT_SUFFIXES = frozenset({".py", ".c", ".h", ".md", ".toml", ".txt", ".json", ""})

SOURCES = sorted(PACKAGE.rglob("*.py"))
PACKAGES = sorted({path.parent for path in SOURCES})
TESTS = sorted((ROOT / "tests").rglob("*.py"))


class Import(NamedTuple):
    target: str  # dotted, absolute
    line: int
    inside_function: bool


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _owner(module: str) -> str:
    """The entry of the layout that a module belongs to: `smelt.graph.node` -> `graph`, `smelt` -> the front door."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] != "__init__" else FRONT_DOOR


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def _dotted(node: ast.expr) -> str:
    """`a.b.c` of a name or attribute chain, empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def _targets(node: ast.AST, module: str) -> list[str]:
    """What one statement or call imports, seen from `module` (`smelt.graph.__init__` for a package's own file)."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        above = module.split(".")[: -node.level] if node.level else []
        base = ".".join([*above, *([node.module] if node.module else [])])
        # `from smelt import graph` names the package `graph`; `from smelt import Tensor` goes through the front door.
        if base == "smelt":
            return [f"smelt.{alias.name}" if alias.name in RANK else "smelt" for alias in node.names]
        return [base]
    if isinstance(node, ast.Call) and _dotted(node.func) in {"importlib.import_module", "import_module"} and node.args:
        first = node.args[0]
        return [first.value] if isinstance(first, ast.Constant) and isinstance(first.value, str) else []
    return []


def imports(source: str, module: str) -> list[Import]:
    """All imports of a module, those under TYPE_CHECKING and inside functions included."""
    found: list[Import] = []
    # Only statements import, unless there are calls that do; most nodes of a tree are parts of expressions.
    where = ast.AST if "import_module" in source else ast.stmt | ast.ExceptHandler | ast.match_case

    def visit(node: ast.AST, inside_function: bool) -> None:
        found.extend(Import(target, getattr(node, "lineno", 0), inside_function) for target in _targets(node, module))
        inside_function = inside_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, where):
                visit(child, inside_function)

    visit(ast.parse(source), False)
    return found


def order_violations(source: str, module: str) -> list[str]:
    """Imports of `module` that go up the layout, or to a place that the layout does not name."""
    owner = _owner(module)
    bad = []
    for target, line, inside_function in imports(source, module):
        if target != "smelt" and not target.startswith("smelt."):
            continue
        other = _owner(target)
        if other == owner or (inside_function and owner in LAZY_DOORS):
            continue
        if other not in RANK or RANK[other] > RANK[owner]:
            bad.append(f"{module}:{line} imports {target}")
    return bad


def unsafe_uses(source: str, module: str) -> list[str]:
    """Anything that could run code from data, or through a shell."""
    if not UNSAFE_WORD.search(source):
        return []  # which spares most files their syntax tree
    bad = [
        f"{module}:{i.line} imports {i.target}"
        for i in imports(source, module)
        if i.target.split(".")[0] in UNSAFE_MODULES
    ]
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        if _dotted(node.func) in UNSAFE_CALLS:
            bad.append(f"{module}:{node.lineno} calls {_dotted(node.func)}")
        for keyword in node.keywords:
            off = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
            if keyword.arg in UNSAFE_FLAGS and not off:
                bad.append(f"{module}:{node.lineno} passes {keyword.arg}")
    return bad


def project_texts() -> Iterator[Path]:
    """Every text file that a reader of the project sees."""
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.suffix in TEXT_SUFFIXES)
    for folder in ("smelt", "tests", "docs", ".ci"):
        yield from (p for p in (ROOT / folder).rglob("*") if p.is_file() and p.suffix in TEXT_SUFFIXES)


def test_there_is_something_to_check() -> None:
    assert PACKAGE / "errors.py" in SOURCES


def test_every_entry_of_the_package_is_in_the_layout() -> None:
    entries = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in SOURCES}
    assert entries - {"__init__", "__main__"} <= set(LAYOUT)


def test_imports_only_go_down_the_layout() -> None:
    assert [bad for path in SOURCES for bad in order_violations(path.read_text(encoding="utf-8"), _module(path))] == []


def deep_imports(source: str, module: str) -> list[str]:
    """Imports from inside of another package, past its door."""
    found = [(target, line) for target, line, _ in imports(source, module) if target.startswith("smelt.")]
    return [
        f"{module}:{line} imports {target}"
        for target, line in found
        if target.count(".") > 1 and _owner(target) != _owner(module) and not ROOT.joinpath(*target.split(".")).is_dir()
    ]


def test_packages_are_entered_by_their_doors() -> None:
    """What is behind a door may change; what still goes past one is counted, and the number only falls."""
    deep = [bad for path in SOURCES for bad in deep_imports(path.read_text(encoding="utf-8"), _module(path))]
    assert len(deep) <= MOST_DEEP_IMPORTS
    assert deep_imports("from smelt.graph.node import Node", "smelt.kernel.ir") != []
    assert deep_imports("from smelt.graph import Node\nfrom smelt.kernel.ir import Load", "smelt.kernel.text") == []


def device_names(source: str, module: str) -> list[str]:
    """Where code knows devices by their names."""
    return [
        f"{module}:{node.lineno} says {node.value!r}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and node.value in ("cpu", "opencl", "cuda")
    ]


def test_only_devices_and_renderers_know_devices_by_name() -> None:
    core = LAYOUT[LAYOUT.index("graph") : LAYOUT.index("debug")]
    others = [path for path in SOURCES if _owner(_module(path)) in {"config", *core} - {"device", "render", "tensor"}]
    assert [bad for path in others for bad in device_names(path.read_text(encoding="utf-8"), _module(path))] == []
    assert device_names('if name == "cpu": pass', "m") == ["m:1 says 'cpu'"]


def test_nothing_unsafe_is_used() -> None:
    files = SOURCES + TESTS
    assert [bad for path in files for bad in unsafe_uses(path.read_text(encoding="utf-8"), _module(path))] == []


def test_files_stay_readable() -> None:
    files = [path for path in PACKAGE.rglob("*") if path.suffix in {".py", ".c", ".h"}]
    lengths = {_name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {name: lines for name, lines in lengths.items() if lines > MAXIMUM_LINES} == {}


def test_functions_are_short() -> None:
    functions = [
        (_name(path), node)
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]
    lengths = {(name, node.name): (node.end_lineno or 0) - node.lineno + 1 for name, node in functions}
    assert {name: lines for name, lines in lengths.items() if lines > MAXIMUM_FUNCTION} == {}


def test_packages_open_with_a_docstring() -> None:
    doors = [folder / "__init__.py" for folder in PACKAGES]
    assert [door for door in doors if not ast.get_docstring(ast.parse(door.read_text(encoding="utf-8")))] == []


def test_no_home_directory_is_written_down() -> None:
    assert [_name(path) for path in project_texts() if HOME_DIRECTORY.search(path.read_text(encoding="utf-8"))] == []


# The checks themselves: each of these is the only thing wrong with its source.


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("smelt.graph.node", "import smelt.kernel"),
        ("smelt.graph.node", "from smelt.kernel.ir import Kernel"),
        ("smelt.graph.node", "from smelt import kernel"),
        ("smelt.graph.node", "from smelt import Tensor"),
        ("smelt.graph.node", "import smelt as sm"),
        ("smelt.graph.node", "from ..kernel import ir"),
        ("smelt.graph.node", "if TYPE_CHECKING:\n    from smelt.tensor import Tensor"),
        ("smelt.graph.node", "def f():\n    from smelt.tensor import Tensor"),
        ("smelt.graph.node", "import importlib\nimportlib.import_module('smelt.tensor')"),
        ("smelt.graph.node", "import smelt.unheard_of"),
        ("smelt.errors", "from smelt.config import settings"),
        ("smelt.__init__", "from smelt.cli import main"),
    ],
)
def test_an_upward_import_is_found(module: str, source: str) -> None:
    assert len(order_violations(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("smelt.kernel.ir", "from smelt.graph.node import Node"),
        ("smelt.kernel.ir", "from smelt import dtypes"),
        ("smelt.kernel.ir", "from .region import Region"),
        ("smelt.kernel.__init__", "from .ir import Kernel"),
        ("smelt.kernel.ir", "from ..graph import Node"),
        ("smelt.kernel.ir", "import numpy as np\nimport smeltery"),
        ("smelt.__init__", "from smelt.tensor import Tensor"),
        ("smelt.__init__", "def __getattr__(name):\n    from smelt.bench import core"),
        ("smelt.bench.core", "import smelt as sm"),
    ],
)
def test_a_downward_import_is_accepted(module: str, source: str) -> None:
    assert order_violations(source, module) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "def f(): import dill",
        "eval('1')",
        "exec(text)",
        "os.system('ls')",
        "subprocess.run('ls', shell=True)",
        "subprocess.run('ls', shell=flag)",
        "np.load(file, allow_pickle=True)",
    ],
)
def test_an_unsafe_use_is_found(source: str) -> None:
    assert len(unsafe_uses(source, "smelt.graph.node")) == 1


@pytest.mark.parametrize("source", ["model.eval()", "subprocess.run(['ls'], shell=False)", "re.compile('a')"])
def test_a_safe_use_is_accepted(source: str) -> None:
    assert unsafe_uses(source, "smelt.graph.node") == []
