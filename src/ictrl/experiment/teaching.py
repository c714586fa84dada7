"""Teaching: a learner that lives learns new classes from their pictures alone, and forgets classes on request.

    position = place.open("auto")                       # taught.py: a run folder or a saved learner
    teach(position, {"dog": dogs, "cat": cats})         # measured on pictures held out, which are then forgotten
    position.learner.save(target, position.notes)       # atomically, at the end

A new class that looks like an old one is often the same thing under another name, or will be taken for it. It is
noticed by how near the two lie to each other, compared with what is usual among the old classes (`ComparesClasses`);
where moments of features are kept, by the affinity of their subspaces before the class is learned, as in a review
(`KeepsMoments`); and by what held-out pictures are taken for.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ictrl.data.shelf import held_out_count
from ictrl.errors import InputError
from ictrl.experiment.checkpoints import Position
from ictrl.experiment.class_facts import CLASSES, HELD_OUT, NAMES, ClassFacts, now, read_facts, written
from ictrl.memory.few_images import LEAST
from ictrl.memory.recognition import recognise
from ictrl.methods.base import Learner
from ictrl.methods.capabilities import ComparesClasses, Forgets, KeepsMoments, ask
from ictrl.shapes import Bool, Int, UInt8
from ictrl.training.loop import Progress

# Of the usual distance between an old class and its nearest: below it, a new class looks like an old one. Ten digits,
# each learned last by `wide`, had 0.74 or more; half of a class, taught again under another name, 0.52 at most.
NEAR = 0.6
OFTEN = 0.3  # share of held-out pictures that are taken for one old class: from there on it is worth a warning
TWICE = 2  # a single picture says nothing


@dataclass(frozen=True)
class Likeness:
    """An old class that a new one looks like."""

    name: str
    reason: str


@dataclass(frozen=True)
class TaughtClass:
    """What became of a new class."""

    label: int
    name: str
    images: int
    """learned from"""
    held_out: int
    """pictures measured on"""
    accuracy: float | None
    """share of these that are recognised among all classes; None if none were held out"""
    likeness: Likeness | None
    """the old class that it looks like, if there is one"""


def known_names(position: Position) -> dict[int, str]:
    """The name of each class that was learned, by label; its number where it has none."""
    names = position.class_names
    return {label: names.get(label, str(label)) for label in sorted(position.learner.labels)}


def teach(
    position: Position,
    pictures: Mapping[str, UInt8[Tensor, "_ c h w"]],
    *,
    held_out: float = 0.2,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[TaughtClass]:
    """Learn new classes by name, in one task; a share of each one's pictures is measured on and not learned from.

    Changes the position's learner, and its notes when all went well. Which pictures are held out follows from the seed.
    """
    learner, known = position.learner, known_names(position)
    check_new_names(pictures, known)
    check_share(held_out)
    labels = new_labels(position, list(pictures))
    apart = {name: _held_out(len(pictures[name]), held_out, seed) for name in pictures}
    X = torch.cat([pictures[name][~apart[name]] for name in pictures])
    y = torch.cat([torch.full((int((~apart[name]).sum()),), labels[name]) for name in pictures])
    recognised = {name: _recognised(learner, known, X[y == label]) for name, label in labels.items()}
    try:
        learner.learn(X, _as_taught(learner, y, labels), progress)
    except InputError as error:
        raise InputError(_by_name(str(error), labels, apart)) from None
    if learner.class_names:  # who is taught by name numbers the names itself
        labels |= {name: label for label, name in learner.class_names.items() if name in labels}
    taken = {name: _taken_for(learner, pictures[name][apart[name]]) for name in pictures}
    found = [
        TaughtClass(
            label=label,
            name=name,
            images=int((~apart[name]).sum()),
            held_out=len(taken[name]),
            accuracy=round(float((taken[name] == label).double().mean()), 6) if len(taken[name]) else None,
            likeness=_taken_often(taken[name], known) or _very_near(learner, label, known) or recognised[name],
        )
        for name, label in labels.items()
    ]
    note(position, {**known, **{label: name for name, label in labels.items()}}, found)
    return found


def forget(position: Position, labels: Sequence[int]) -> list[str]:
    """Forget classes; returns what may remain of them. Changes the position's learner and notes."""
    learner, known = ask(position.learner, Forgets, "forget"), known_names(position)
    for label in labels:
        learner.forget(label)
    note(position, {label: name for label, name in known.items() if label not in labels})
    return learner.what_remains()


def note(position: Position, names: Mapping[int, str], taught: Sequence[TaughtClass] = ()) -> None:
    """Names and facts of the classes that are known now; what a run measured of others is no longer true of this."""
    facts = read_facts(position.notes, names)
    for new in taught:
        measured = (new.accuracy, new.held_out, HELD_OUT, len(names)) if new.held_out else ()
        facts[new.label] = ClassFacts(now(), None, new.images, *measured)
    kept = {key: value for key, value in position.notes.items() if key != "measured"}
    position.learner.class_names = dict(names)
    position.notes = {**kept, NAMES: json.dumps({str(k): v for k, v in names.items()}), CLASSES: written(facts)}


def check_new_names(new: Mapping[str, Any], known: Mapping[int, str]) -> None:
    """Refuse nothing at all, and classes that are known already."""
    if not new:
        raise InputError("Expected pictures of at least one new class but got none.")
    again = [name for name in new if name in known.values()]
    if again:
        raise InputError(
            f"Expected new classes but {', '.join(again)} {'is' if len(again) == 1 else 'are'} known already: leave "
            "such pictures out, or `ictrl forget` the class first and teach it anew from all its pictures."
        )


def check_share(held_out: float) -> None:
    """Refuse what is no share of pictures, or all of them."""
    if not 0 <= held_out < 1:
        raise InputError(f"Expected a share held out of at least 0 and below 1 but got {held_out}.")


def new_labels(position: Position, names: Sequence[str]) -> dict[str, int]:
    """A label for each new name: its number, where all classes are called by theirs; otherwise the next that is free.

    A class that the learner's run knows of, but has not learned yet, has the label that it has there.
    """
    learned, noted = known_names(position), position.class_names
    coming = {name: label for label, name in noted.items() if label not in learned}
    if all(name == str(label) for label, name in learned.items()) and all(name.isdecimal() for name in names):
        return {name: int(name) for name in names}
    free = max([*learned, *noted], default=-1) + 1
    found: dict[str, int] = {}
    for name in names:
        found[name] = coming.get(name, free)
        free += name not in coming
    return found


def _held_out(n: int, share: float, seed: int) -> Bool[Tensor, " n"]:
    """Which of n pictures to measure on: about this share, at least one and never all; none at a share of 0."""
    chosen = torch.zeros(n, dtype=torch.bool)
    if share:
        order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
        chosen[order[: held_out_count(n, share)]] = True
    return chosen


def _as_taught(learner: Learner[Any], y: Int[Tensor, " n"], labels: Mapping[str, int]) -> Any:
    """Labels of the kind that the learner was taught by."""
    names = {label: name for name, label in labels.items()}
    return [names[label] for label in y.tolist()] if learner._by_name else y


def _by_name(message: str, labels: Mapping[str, int], apart: Mapping[str, Bool[Tensor, " n"]]) -> str:
    """What a learner says of a class that it knows by number, with the class's name and what was held out of it."""
    names = {str(label): name for name, label in labels.items()}

    def named(found: re.Match[str]) -> str:
        if (name := names.get(found[1])) is None:
            return found[0]
        held = int(apart[name].sum()) if len(apart[name]) >= LEAST else 0
        return f"class {name}" + (f" ({held} more are held out: --held-out 0 learns from them too)" if held else "")

    return re.sub(r"\bclass '?(-?\d+)\b'?", named, message)


def _taken_for(learner: Learner[Any], X: UInt8[Tensor, "n c h w"]) -> Int[Tensor, " n"]:
    """The label that is predicted for each picture."""
    labels = torch.tensor(sorted(learner.labels))
    return labels[learner.scores(X).argmax(1).cpu()] if len(X) else labels[:0]


# Does it look like an old class?


def _recognised(learner: Learner[Any], known: Mapping[int, str], X: UInt8[Tensor, "n c h w"]) -> Likeness | None:
    """What a learner that reviews classes would take these pictures for, without doubt, before it learns them."""
    if not known or not isinstance(learner, KeepsMoments):
        return None
    found = recognise(learner.features(X), learner.class_memory())
    reason = f"their subspaces have an affinity of {found.affinity:.2f}"
    return None if found.doubt else Likeness(known[found.label], reason)


def _taken_often(taken: Int[Tensor, " n"], known: Mapping[int, str]) -> Likeness | None:
    """The old class that many held-out pictures are taken for."""
    counts = {old: int((taken == old).sum()) for old in known}
    old = max(counts, key=lambda label: counts[label], default=None)
    if old is None or counts[old] < max(TWICE, OFTEN * len(taken)):
        return None
    return Likeness(known[old], f"{counts[old]} of {len(taken)} held-out pictures are taken for it")


def _very_near(learner: Learner[Any], label: int, known: Mapping[int, str]) -> Likeness | None:
    """The old class that lies unusually near."""
    if not isinstance(learner, ComparesClasses) or len(known) < TWICE:
        return None
    labels, distances = sorted(learner.labels), learner.class_distances().cpu()
    places = [labels.index(old) for old in known]
    among = distances[places][:, places].clone()
    among.fill_diagonal_(float("inf"))
    usual = float(among.amin(1).median())
    away, nearest = distances[labels.index(label)][places].min(0)
    if float(away) >= NEAR * usual:
        return None
    reason = f"it lies at {float(away) / usual:.2f} of the distance that is usual between nearest classes"
    return Likeness(known[labels[places[int(nearest)]]], reason)
