"""The shape of the house: its rooms, who imports whom, what is public, what may be committed."""

import ast
import inspect
import re
import subprocess
import sys
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import ictrl

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "ictrl"

# A room imports only rooms above it; docs/architecture.md has the picture.
GROUND = ["errors", "files", "limits", "typed_json", "config"]
ABOVE = {
    "errors": [],
    "shapes": [],
    "parallel": ["errors"],
    "startup": [],
    "files": [],
    "limits": ["errors"],
    "typed_json": ["errors", "limits"],
    "config": ["errors"],
    "kernels": ["errors", "parallel"],
    "recipes": ["errors", "limits", "typed_json", "config"],
    "data": GROUND,
    "theory": ["errors", "kernels", "parallel"],
    "nets": ["errors", "config", "kernels", "parallel", "theory"],
    "memory": ["errors", "config", "parallel", "theory", "nets"],
    "training": ["errors", "config", "kernels", "parallel", "theory", "nets", "memory"],
    "methods": [*GROUND, "parallel", "recipes", "data", "theory", "nets", "memory", "training"],
    "experiment": [*GROUND, "parallel", "recipes", "data", "theory", "nets", "memory", "training", "methods"],
    "deploy": [*GROUND, "recipes", "data", "methods"],
    "visualize": [*GROUND, "recipes", "data", "theory", "nets", "memory", "training", "methods", "experiment"],
    "report": [*GROUND, "recipes", "data", "theory", "memory", "methods", "experiment", "visualize"],
    "serve": [*GROUND, "data", "theory", "memory", "methods", "experiment", "visualize", "training"],
    "cli": [
        *(
            *GROUND,
            "startup",
            "parallel",
            "recipes",
            "data",
            "theory",
            "training",
            "methods",
            "experiment",
            "visualize",
            "report",
            "deploy",
        ),
        "serve",
    ],
}
LONG = {  # files of more than 250 lines, each with its reason
    "config.py": "every setting, once",
    "kernels/image.py": "two Triton kernels and their gradients",
    "methods/base.py": "the Learner protocol and all that a method gets for free",
}


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    names = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def imported(path: Path, everywhere: bool = True) -> set[str]:
    """The modules of the package that a file imports: everywhere in it, or at its top level only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    known, found = modules(), set()
    for node in ast.walk(tree) if everywhere else tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:  # a module of that package, or a name within it
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
    return {name for name in found if name.split(".")[0] == "ictrl"}


@pytest.mark.parametrize("room", ABOVE)
def test_a_room_imports_only_rooms_above_it(room: str) -> None:
    allowed = {*ABOVE[room], room, "shapes"}
    for name, path in modules().items():
        if name.split(".")[1:2] == [room]:
            rooms = {other.split(".")[1] for other in imported(path) if "." in other}
            assert rooms <= allowed, f"{name} imports {sorted(rooms - allowed)}"


def test_nothing_is_imported_in_a_circle() -> None:
    graph = {name: imported(path, everywhere=False) - {name} for name, path in modules().items()}
    assert len(list(TopologicalSorter(graph).static_order())) >= len(graph)  # CycleError names a circle


def test_the_rooms_are_all_there_are() -> None:
    names = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert names - {"__init__", "__main__", "__pycache__"} == set(ABOVE)
    tests = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name[0] not in "._"}
    assert tests - {"cifar10-run", "attack"} <= set(ABOVE)
    assert {room for room in ABOVE if (SOURCE / room).is_dir()} <= tests


def test_no_two_files_have_nearly_the_same_name() -> None:
    stems = defaultdict(list)
    for path in modules().values():
        if path.stem not in ("__init__", "__main__") and "cli" not in path.parts:  # a command is called as its room is
            stems[re.sub(r"(ing|ies|s|y|er|e)$", "", path.stem)].append(str(path.relative_to(SOURCE)))
    assert {stem: paths for stem, paths in stems.items() if len(paths) > 1} == {}


def test_a_file_is_read_in_one_sitting() -> None:
    lengths = {str(path.relative_to(SOURCE)): len(path.read_text().splitlines()) for path in modules().values()}
    assert {name for name, lines in lengths.items() if lines > 250} == set(LONG)


def test_signs_and_eigendecompositions_have_one_home() -> None:
    for name, path in modules().items():
        text = path.read_text(encoding="utf-8")
        assert ("maximize" not in text) or name.endswith("objectives"), name
        assert not re.search(r"linalg\.(eigh|eigvalsh|eig|svd)\(", text) or name == "ictrl.theory.statistics", name


def test_the_public_surface() -> None:
    assert len(set(ictrl.__all__)) == len(ictrl.__all__)
    public = {name for name, value in vars(ictrl).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert public == set(ictrl.__all__)
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "api").glob("*.md"))
    for name in ictrl.__all__:
        documented = inspect.getdoc(getattr(ictrl, name))
        assert documented, name
        assert len(documented.split()) > 2, name  # it stands alone in a tooltip
        home = inspect.getmodule(getattr(ictrl, name))
        assert home is not None
        assert f"::: {home.__name__}" in pages or f"::: {home.__name__.rpartition('.')[0]}\n" in pages, name


def test_what_a_learner_offers() -> None:
    public = {name for name in dir(ictrl.Learner) if not name.startswith("_")}
    written_by_methods = {"build", "learn_task", "class_scores", "kept_tensors", "kept_from", "resize", "load_stored"}
    written_by_methods |= {"kept_to_predict", "kept_to_predict_from", "predicts_by", "scorer"}
    assert public - written_by_methods == {
        "learn",
        "partial_fit",
        "predict",
        "predict_proba",
        "scores",
        "score",
        "classes_",
        "kept_bytes",
        "parameter_count",
        "save",
        "save_task",
        "load",
        "of_stored",
        "parts",
        "settings",
        "keeps",
        "keeps_images",
        "shares_batches",
        "misfit",
        # scikit-learn's
        "fit",
        "get_params",
        "set_params",
        "decision_function",
    }


def test_help_does_not_wait_for_heavy_imports() -> None:
    script = "import sys, ictrl.cli; print(sorted({'sklearn', 'matplotlib', 'ictrl.report'} & set(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert output == "[]\n"


def test_nothing_large_is_committed_and_experiments_are_not_in_the_wheel() -> None:
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=True).stdout.split()
    assert "src/ictrl/theory/rates.py" in listed
    assert [name for name in listed if (ROOT / name).exists() and (ROOT / name).stat().st_size > 1_000_000] == []
    assert not [name for name in listed if name.startswith("src/") and "choosing-" in name]
    assert [name for name in listed if name.startswith("experiments/choosing-")]
