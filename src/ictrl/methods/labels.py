"""Labels: whole numbers or names, which come back as they went in.

Inside a learner classes are whole numbers. Names are numbered in the order in which they are taught, those of one task
alphabetically, and `class_names` keeps them; a learner that was taught by name answers by name.
"""

import json
from collections.abc import Container, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ictrl.errors import InputError
from ictrl.methods.inputs import whole_number
from ictrl.shapes import Int
from ictrl.typed_json import parse_json

NAMES, BY_NAME = "class_names", "taught_by_name"  # keys of a file's notes


def checked_labels(labels: Any, n: int) -> NDArray[Any]:
    """One whole number per image, as int64, or one text per image."""
    if labels is None:
        raise InputError("Expected labels but got none: give them beside the images, or a dataset that has them.")
    values = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else _as_array(labels)
    if values.shape != (n,):
        raise InputError(f"Expected one label per image ({n}) but got labels of shape {values.shape}.")
    if values.dtype.kind in "UT":
        return values.astype(np.str_)
    if values.dtype.kind not in "iu" or (values.dtype.kind == "u" and (values > np.iinfo(np.int64).max).any()):
        found = "bytes: decode them" if values.dtype.kind == "S" else values.dtype
        raise InputError(f"Expected whole numbers that fit into 64 bits, or texts, as labels but got {found}.")
    return values.astype(np.int64)


def _as_array(labels: Any) -> NDArray[Any]:
    """As NumPy has it, but for numbers among texts, which it would turn into texts too."""
    try:
        values = np.asarray(labels)
    except ValueError:
        raise InputError("Expected one label per image but got lists of several lengths.") from None
    if values.dtype.kind not in "OU" or (values is labels and values.dtype.kind == "U"):
        return values
    texts = [isinstance(label, str) for label in labels] if values.ndim == 1 else []
    if any(texts) and not all(texts):
        other = labels[texts.index(False)] if isinstance(labels, list | tuple) else values[texts.index(False)]
        raise InputError(f"Expected labels that are all whole numbers or all texts but got {other!r} among texts.")
    return values.astype(np.str_) if any(texts) else values


def numbered(
    values: NDArray[Any], learned: Iterable[int], names: Mapping[int, str], by_name: bool
) -> tuple[Int[Tensor, " n"], dict[int, str]]:
    """Labels as numbers, and the names of those that have no number yet.

    What a learner was taught by, numbers or names, it is taught by for ever: `by_name` says which that is.
    """
    learned, texts = list(learned), values.dtype.kind == "U"
    if learned and texts != by_name:
        kinds = ("texts", "whole numbers") if by_name else ("whole numbers", "texts")
        raise InputError(f"Expected {kinds[0]} as labels, which this learner was taught by, but got {kinds[1]}.")
    if not texts:
        return torch.from_numpy(values), {}
    known, next_number = {name: label for label, name in names.items()}, max(learned, default=-1) + 1
    present, rows = np.unique(values, return_inverse=True)
    new = [str(name) for name in present if str(name) not in known]
    numbers = known | {name: next_number + position for position, name in enumerate(new)}
    y = torch.tensor([numbers[str(name)] for name in present])[torch.from_numpy(rows)]
    return y, {numbers[name]: name for name in new}


def number_of(label: Any, names: Mapping[int, str], by_name: bool) -> int:
    """The number of a class that is asked for by its number or, where it was taught by name, by that."""
    if not (by_name and isinstance(label, str)):
        return whole_number(label, "label")
    found = next((number for number, name in names.items() if name == label), None)
    if found is None:
        raise InputError(f"Expected a learned label but got {label!r}; learned are {listed(names.values())}.")
    return found


def check_new_classes(y: Int[Tensor, " n"], learned: Container[int], names: Mapping[int, str]) -> None:
    """Refuse classes that were learned before, and classes of a single image."""
    present, counts = y.unique(return_counts=True)
    again = [names.get(int(label), int(label)) for label in present if int(label) in learned]
    if again:
        raise InputError(
            f"Expected new classes but {listed(again)} {'was' if len(again) == 1 else 'were'} learned before: "
            "leave such images out of this task, or show them to review, if the method has it."
        )
    lonely = [names.get(int(label), int(label)) for label in present[counts < 2]]
    if lonely:
        raise InputError(
            f"Expected at least 2 images per class but got one of class {listed(lonely)}: "
            "the mean of one image's features would be those features, and no image's features are kept."
        )


def listed(labels: Iterable[Any]) -> str:
    """Labels for a message, the first few of many."""
    shown = [str(label) for label in labels]
    return ", ".join(shown[:8]) + (f" … ({len(shown)} in all)" if len(shown) > 8 else "")


def names_to_notes(names: Mapping[int, str], by_name: bool, notes: Mapping[str, str]) -> dict[str, str]:
    """Notes for a file, with the names of classes; a run's own notes name more of them than have been learned."""
    own = {NAMES: json.dumps(dict(names))} if names else {}
    return {**notes, **own, BY_NAME: "yes"} if by_name else {**own, **notes}


def names_from_notes(notes: Mapping[str, str], labels: Container[int]) -> tuple[dict[int, str], bool]:
    """Names of learned classes, and whether these are what the learner was taught by; a run notes names too."""
    try:
        names = {int(label): str(name) for label, name in parse_json(notes.get(NAMES, "{}")).items()}
    except (ValueError, AttributeError):
        if BY_NAME in notes:
            raise ValueError("its notes do not name the classes") from None
        names = {}  # a note of somebody's own that happens to be called so
    return {label: name for label, name in names.items() if label in labels}, BY_NAME in notes
