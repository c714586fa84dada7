"""What a method can do beyond the protocol is asked of it, never taken for granted and never told by its class."""

import ast
from pathlib import Path

import pytest
from method_support import METHODS, learner_of, recipe_of

import ictrl
from ictrl import InputError, create_learner
from ictrl.methods.capabilities import (
    ComparesClasses,
    Draws,
    DrawsFeatures,
    Forgets,
    KeepsMoments,
    Probabilities,
    Remembers,
    Replays,
    Reviews,
    StandsStill,
    TellsUnknown,
    ask,
)

SOURCE = Path(ictrl.__file__).parent
WIDE = {Probabilities, TellsUnknown, ComparesClasses, StandsStill}
ALL = {Draws, DrawsFeatures, Replays, KeepsMoments, Remembers, Reviews, Forgets} | WIDE
CAN: dict[str, set[type]] = {
    **{method: {Forgets} for method in METHODS},
    "ictrl": ALL - WIDE - {Remembers},
    "frozen": ALL - WIDE - {Remembers, Reviews},
    **{method: {Draws, Forgets} for method in ("joint_dcgan", "dgr")},  # whose classifier names what was drawn
    **{method: {Draws, Replays, Forgets} for method in ("mergan", "dgmw", "eec", "eecs")},
    "wide": WIDE | {Remembers, Forgets},
    **{method: ALL - {KeepsMoments, Reviews} for method in ("wide-ictrl", "wide-gan")},
}


@pytest.mark.parametrize("method", METHODS)
def test_who_can_do_what(method: str) -> None:
    learner = create_learner(recipe_of(method))
    assert {capability for capability in ALL if isinstance(learner, capability)} == CAN[method]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("capability", sorted(ALL, key=lambda kind: kind.__name__))
def test_asking_gives_the_learner_or_one_line(method: str, capability: type) -> None:
    learner = create_learner(recipe_of(method))
    if capability in CAN[method]:
        assert ask(learner, capability, "do this") is learner
        return
    able = ", ".join(other for other in METHODS if capability in CAN[other])
    with pytest.raises(InputError, match=rf"^Expected a method that can do this \({able}\) but {method} cannot.$"):
        ask(learner, capability, "do this")


def test_what_is_no_learner_is_named_by_its_class() -> None:
    able = ", ".join(method for method in METHODS if Draws in CAN[method])
    with pytest.raises(InputError, match=rf"^Expected a method that can draw \({able}\) but str cannot.$"):
        ask("text", Draws, "draw")


def test_those_who_can_replay_say_how_faithfully() -> None:
    for method in METHODS:
        if Replays in CAN[method]:
            assert 0.0 <= ask(learner_of(method), Replays, "replay").replay_recognised() <= 1.0


def names_in(path: Path) -> set[str]:
    """Every name that a module imports, reads or writes; texts and comments are none."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {name for alias in node.names for name in (alias.name, alias.asname) if name}
    return names


def imports_from(path: Path, module: str) -> set[str]:
    """What a module imports from another by name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == module)
    return {alias.name for node in found for alias in node.names}


METHOD_FILES = [path.stem for path in sorted((SOURCE / "methods").glob("*.py"))]
CLASSES = {"ICTRL", "Frozen", "Finetune", "Joint", "Wide", "WideICTRL"}
CLASSES |= {"ClosedLoopLearner", "CrossEntropyLearner", "DrawingLearner", "WideLearner"}
MODULES = [path for room in ("experiment", "report", "cli") for path in sorted((SOURCE / room).rglob("*.py"))]


def test_the_rooms_are_where_they_are_looked_for() -> None:
    """Otherwise the test below would find nothing wrong because it finds nothing."""
    assert {"closed_loop", "finetune", "frozen", "ictrl", "joint"} <= set(METHOD_FILES)
    assert {"review.py", "run.py", "evaluation.py"} <= {path.name for path in MODULES}
    assert names_in(SOURCE / "__init__.py") >= {"ICTRL"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nobody_asks_for_a_method_by_its_class(path: Path) -> None:
    """Experiments, report and command line ask for capabilities; only a review knows what a `Review` looks like."""
    assert not names_in(path) & CLASSES
    for method in set(METHOD_FILES) - {"base", "capabilities", "storage", "inputs"}:
        allowed = {"Review", "review_stage"} if path.name == "review.py" and method == "ictrl" else set()
        assert imports_from(path, f"ictrl.methods.{method}") <= allowed
