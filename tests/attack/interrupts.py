"""Ctrl-C, twice too, and lack of memory anywhere within learn, review, forget and fit: all or nothing, for ever after.

After each, the learner is compared with what it was, to the last bit and flag; then it does what it was interrupted in,
and is compared with one that was never disturbed.
"""

import copy
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import torch
from methods.method_support import METHODS, TASKS, TESTS, recipe_of
from torch.utils._python_dispatch import TorchDispatchMode

import ictrl
from attack.bytecodes import Traced
from attack.limits import in_time
from attack.registry import FAILED, HELD, Outcome, attack
from ictrl import Learner, create_learner
from ictrl.nets import layers
from ictrl.nets.modes import Modes

OURS = str(Path(ictrl.__file__).parent)
TORCH = str(Path(torch.__file__).parent)
CAREFUL = ("methods/threads.py", "nets/modes.py", "nets/families.py", "methods/base.py", "methods/estimator.py")
FILES: dict[str, Callable[[str], bool]] = {
    "begin and end": lambda name: name.startswith(OURS) and name.endswith(CAREFUL),
    "ictrl": lambda name: name.startswith(OURS),
    "everywhere": lambda name: name.startswith((OURS, TORCH)) or name.endswith(("contextlib.py", "copy.py")),
}
"""Whose bytecodes are counted."""
KINDS = ("Ctrl-C", "Ctrl-C twice", "MemoryError", "a tensor that cannot be had")
SOON = 80  # bytecodes after the first Ctrl-C within which the second one comes, mostly


class Scene(NamedTuple):
    """What is interrupted."""

    method: str
    what: str
    tasks: int
    """that the learner has learned before"""

    def prepared(self) -> Learner[Any]:
        short = {name: {"epochs": 1} for name in ("first", "later", "stage", "balanced", "trunk", "adapter")}
        known = {name for name in short if hasattr(recipe_of(self.method).method, name)}
        learner = create_learner(recipe_of(self.method, **{name: short[name] for name in known}))
        for task in TASKS[: self.tasks]:
            learner.learn(*task)
        return learner

    def done_to(self, learner: Any) -> None:
        if self.what == "learn":
            learner.learn(*TASKS[self.tasks])
        elif self.what == "partial_fit":
            learner.partial_fit(*TASKS[self.tasks])
        elif self.what == "fit":
            learner.fit(*TASKS[0])
        elif self.what == "review":
            learner.review(TASKS[0][0][TASKS[0][1] == 5], certain=False, label=5)
        else:
            learner.forget(5)


SCENES = [
    *(Scene(method, "learn", tasks) for method in METHODS for tasks in (1, 0)),
    *(Scene(method, "forget", 1) for method in METHODS),
    *(Scene("ictrl", "review", 2) for _ in range(2)),
    *(Scene(method, "fit", 1) for method in ("ictrl", "wide")),
    Scene("wide-ictrl", "partial_fit", 1),
]


THOROUGH = [
    *(Scene("er", "learn", 1), Scene("ictrl", "learn", 1), Scene("ictrl", "review", 2)),
    *(Scene("wide", "forget", 1), Scene("wide", "fit", 1)),
]
"""Of each kind of scene one, interrupted at every bytecode at which something begins or ends."""


class Played(NamedTuple):
    """A scene as it goes if nobody interrupts it."""

    learner: Learner[Any]
    before: dict[str, Any]
    after: dict[str, Any]


@cache
def played(scene: Scene) -> Played:
    learner = scene.prepared()
    other = copy.deepcopy(learner)
    scene.done_to(other)
    return Played(learner, everything(learner), everything(other))


@cache
def counted(scene: Scene, files: str) -> int:
    """Bytecodes of a scene."""
    traced = Traced(FILES[files])
    assert traced.run(partial(scene.done_to, copy.deepcopy(played(scene).learner))) is None
    return traced.count


@cache
def operations(scene: Scene) -> int:
    """Operations on tensors of a scene."""
    learner, scarce = copy.deepcopy(played(scene).learner), Scarce(None)
    with scarce:
        scene.done_to(learner)
    return scarce.count


def everything(learner: Learner[Any]) -> dict[str, Any]:
    """All that a learner is."""
    state = learner._state
    found: dict[str, Any] = {f"state.{name}": tensor.clone() for name, tensor in state.tensors().items()}
    found |= {f"kept.{name}": tensor.clone() for name, tensor in learner.kept_tensors().items()}
    for name, network in state.networks.items():
        found |= {f"{name}.{at}.training": part.training for at, part in network.named_modules()}
        found |= {f"{name}.{at}.momentum": getattr(part, "momentum", None) for at, part in network.named_modules()}
        found |= {f"{name}.{at}.trained": part.requires_grad for at, part in network.named_parameters()}
        found |= {f"{name}.{at}.gradient": part.grad is None for at, part in network.named_parameters()}
    found |= {"labels": list(learner.labels), "names": dict(learner.class_names), "by_name": learner._by_name}
    found |= {"ema": state.ema is None, "optimisers": sorted(state.optimisers), "bytes": learner.kept_bytes}
    found["rates"] = [[g["lr"] for g in part.param_groups] for part in state.optimisers.values()]
    if learner.labels:
        found["scores"] = learner.scores(TESTS[::4])
    return found


def different(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Names of what is not the same."""

    def same(name: str) -> bool:
        a, b = one.get(name), other.get(name)
        return torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else a == b

    return [name for name in sorted({*one, *other}) if not same(name)]


class Scarce(TorchDispatchMode):
    """Counts operations on tensors; at one of them there is no memory."""

    def __init__(self, at: int | None, error: type[BaseException] = MemoryError) -> None:
        super().__init__()
        self.count, self.at, self.error = 0, at, error

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        if self.count == self.at:
            raise self.error("as asked for")
        return function(*args, **(kwargs or {}))


def surroundings(learner: Learner[Any]) -> list[str]:
    """What is not as it was before, around the learner; and put right for the next case."""
    wrong = [name for name, one, other in zip(Modes._fields, Modes.now(), AT_FIRST) if one != other]
    AT_FIRST.put_back()
    while Modes.now().nesting < AT_FIRST.nesting:
        torch.autocast_increment_nesting()
    if layers._within or not all((layers.cudnn.allow_tf32 is True, layers.matmul.allow_tf32 is False)):
        wrong.append(f"TF32: {len(layers._within)} within")
        layers._within.clear()
        layers.cudnn.allow_tf32, layers.matmul.allow_tf32 = True, False
    free = list[bool]()

    def take() -> None:
        free.append(learner._gate.turn.acquire(blocking=False))
        if free[0]:
            learner._gate.turn.release()

    other = threading.Thread(target=take)
    other.start()
    other.join()
    if not free[0]:
        wrong.append("the learner's turn is taken")
    if learner._gate.aside(learner) is not None:
        wrong.append("the learner goes on learning")
    return wrong


AT_FIRST = Modes.now()


@attack("Ctrl-C, a second one, and lack of memory at random bytecodes of learning", cases=10_000, small=24)
def interrupts(seed: int, cases: Sequence[int], scratch: Path) -> Iterator[Outcome]:
    for case in cases:
        random = Random(f"interrupts {seed} {case}")
        scene, kind = SCENES[case % len(SCENES)], KINDS[case // len(SCENES) % len(KINDS)]
        with in_time():
            wrong, what = _play(scene, kind, random)
        yield Outcome(case, FAILED if wrong else HELD, f"{scene}: {what}: {'; '.join(wrong)}" if wrong else "")


def listed(root: Path) -> list[tuple[Scene, str, int]]:
    """Every bytecode at which something begins or ends, of some scenes, for each kind of interrupt."""
    return [
        (scene, kind, at)
        for scene in THOROUGH
        for kind in KINDS[:3]
        for at in range(1, counted(scene, "begin and end") + 1)
    ]


@attack(
    "Ctrl-C, a second one, and lack of memory at every bytecode at which learning begins or ends",
    cases=lambda root: len(listed(root)),
    small=12,
    chunk=500,
)
def begin_and_end(seed: int, cases: Sequence[int], scratch: Path) -> Iterator[Outcome]:
    every = listed(scratch)
    for case in cases:
        scene, kind, at = every[case]
        with in_time():
            wrong, what = _play(scene, kind, Random(f"begin and end {seed} {case}"), at)
        yield Outcome(case, FAILED if wrong else HELD, f"{scene}: {what}: {'; '.join(wrong)}" if wrong else "")


def _play(scene: Scene, kind: str, random: Random, at: int | None = None) -> tuple[list[str], str]:
    """What was wrong afterwards, and what was done: at a bytecode of those of beginning and end, or at random."""
    before, after = played(scene)[1:]
    learner = copy.deepcopy(played(scene).learner)
    attempt = partial(scene.done_to, learner)
    if kind == KINDS[3]:
        error = random.choice([MemoryError, torch.OutOfMemoryError])
        at = random.randint(1, operations(scene))
        raised, what = _in_need(attempt, at, error), f"no memory at operation {at}"
    else:
        files = random.choice(list(FILES)) if at is None else "begin and end"
        total = counted(scene, files)
        soon = random.randint(1, SOON if random.random() < 0.8 else 20 * SOON)
        first = random.randint(1, total) if at is None else at
        places, traced = [first, soon] if kind == KINDS[1] else [first], Traced(FILES[files])
        raised = traced.run(attempt, places, MemoryError if kind == KINDS[2] else None)
        what = f"{kind} at {places} of {total} bytecodes of {files}, {traced.delivered} delivered"
    wrong = surroundings(learner)
    if raised is not None and not isinstance(raised, KeyboardInterrupt | MemoryError | torch.OutOfMemoryError):
        wrong.append(f"{type(raised).__name__}: {raised}")
    raised = None  # and the frames that it holds
    now = everything(learner)
    if different(now, after):
        if wrongly := different(now, before):
            return [*wrong, f"neither as before nor as after: {', '.join(wrongly[:4])}"], what
        scene.done_to(learner)
        if wrongly := different(everything(learner), after):
            return [*wrong, f"learns something else: {', '.join(wrongly[:4])}"], what
    return wrong, what


def _in_need(attempt: Callable[[], None], at: int, error: type[BaseException]) -> BaseException | None:
    try:
        with Scarce(at, error):
            attempt()
    except BaseException as raised:
        return raised
    return None
