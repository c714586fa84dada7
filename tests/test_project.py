"""The shape of the project: who imports whom, what is public, what may be committed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ictrl

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "ictrl"

# A room imports only rooms before it. `config`, `errors` and `files` are read by all and import none but each other.
ROOMS = [
    "errors",
    "files",
    "config",
    "recipefiles",
    "inputs",
    "storage",
    "kernels",
    "rates",
    "layers",
    "networks",
    "objectives",
    "memory",
    "classifier",
    "metrics",
    "recognition",
    "averages",
    "capture",
    "stopwatch",
    "supply",
    "players",
    "game",
    "learner",
    "drawing",
    "data",
    "judges",
    "fidelity",
    "drift",
    "measuring",
    "sheets",
    "runs",
    "experiment",
    "reviewing",
    "study",
    "studying",
    "report",
    "cli",
]


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "ictrl" else [f"ictrl.{alias.name}" for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("ictrl.")}
    return rooms


@pytest.mark.parametrize("room", ROOMS)
def test_data_flows_one_way(room: str) -> None:
    files = [SOURCE / f"{room}.py"] if (SOURCE / f"{room}.py").exists() else sorted((SOURCE / room).rglob("*.py"))
    allowed = {*ROOMS[: ROOMS.index(room)], room}
    for file in files:
        assert imported_rooms(file) <= allowed, file


def test_every_room_is_known() -> None:
    found = {path.stem if path.is_file() else path.name for path in SOURCE.iterdir() if path.name[0] not in "._"}
    assert found - {"py", "recipes", "studies"} == set(ROOMS)


def test_the_public_surface() -> None:
    assert sorted(ictrl.__all__) == sorted(
        ["ICTRL", "ConfigError", "InputError", "NonFiniteError", "Recipe", "load_recipe", "recipe_names"]
    )
    assert all(hasattr(ictrl, name) for name in ictrl.__all__)
    methods = {name for name in vars(ictrl.ICTRL) if not name.startswith("_")}
    assert methods == {
        "learn",
        "partial_fit",
        "predict",
        "classifier",
        "residuals",
        "review",
        "views",
        "score",
        "features",
        "reconstruct",
        "sample",
        "decode",
        "recall",
        "save",
        "save_task",
        "load",
        "encoder",
        "decoder",
        "parameters",
        "classes_",
    }


def test_help_does_not_wait_for_heavy_imports() -> None:
    script = "import sys, ictrl.cli; print(sorted({'sklearn', 'matplotlib', 'ictrl.report'} & set(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert output == "[]\n"


def test_nothing_large_is_committed() -> None:
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=True).stdout.split()
    assert "src/ictrl/rates.py" in listed
    assert [name for name in listed if (ROOT / name).exists() and (ROOT / name).stat().st_size > 1_000_000] == []
