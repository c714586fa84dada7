"""The Learner protocol: what the harness asks of any method, and what it gives in return.

A method is a subclass of `Learner` with settings of its own (a `MethodConfig`). It writes four things:

    build(initial)          networks and optimisers, as a TrainingState
    learn_task(X, y, hooks) learn one task of new classes; returns what is kept of all classes from now on
    class_scores(X)         (n, classes), the largest for the predicted class, columns by ascending label
    kept_tensors(), …       what is kept besides the networks, as named tensors; nothing by default

and gets the rest: checked input, labels, devices, seeds, `learn` that succeeds or leaves the learner as it was, exact
resume within a task and between tasks, saving and loading, the byte count. `finetune` is the example to read.

More than that is a capability (`capabilities.py`), which evaluation, report and command line ask for and do without.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ictrl.config import MethodConfig, Recipe
from ictrl.errors import InputError
from ictrl.memory.store import LABEL_BYTES
from ictrl.methods.estimator import Estimator, not_learned
from ictrl.methods.inference import check_can_learn, load_parts, parts_of
from ictrl.methods.inputs import Images, like, resolve_device, whole_number
from ictrl.methods.intake import checked_images, images_and_labels
from ictrl.methods.labels import check_new_classes, checked_labels, names_from_notes, names_to_notes, numbered
from ictrl.methods.narration import narrated
from ictrl.methods.skeleton import check_answers, check_size
from ictrl.methods.stopping import stopped_task
from ictrl.methods.storage import ALL, LEARNER, STOPPED_TASK, Stored, fitting, read_learner, write_stored
from ictrl.methods.threads import Gate, learns, reads
from ictrl.nets.wrappers import parameter_count
from ictrl.recipes.tables import without_place
from ictrl.shapes import Float, Int, UInt8
from ictrl.training.loop import EpochReport, Progress, TaskHooks
from ictrl.training.players import without_optimisers
from ictrl.training.profiler import Profiler
from ictrl.training.state import TrainingState

Kept = TypeVar("Kept")

LEARNERS: dict[str, type["Learner[Any]"]] = {}
"""Every method by the name that recipes choose it by; a subclass of `Learner` with settings enters itself."""


class Learner(Estimator, ABC, Generic[Kept]):
    """Learns image classes task by task.

    Images are arrays or tensors of uint8 or of floats from 0 to 1, lists of pictures, data sets or loaders, of any size
    (`intake`); labels are whole numbers or texts. What comes back is of the kind that went in: a tensor on the same
    device for a tensor, an array for everything else. The learner keeps no reference to what it was given.
    """

    settings_type: ClassVar[type[MethodConfig]]
    """its settings; their name is the method's"""
    keeps_images: ClassVar[bool] = False
    """whether it keeps training images: such a method is a bound, not an answer"""
    keeps: ClassVar[str] = "nothing"
    """what it keeps besides its networks, in a few words"""
    misfit: ClassVar[str] = ""
    """what to do where a file's contents do not fit, if there is something"""
    shares_batches: ClassVar[bool] = False
    """whether several processes can learn together, each with a share of every batch"""
    predicts_by: ClassVar[tuple[str, ...]] = ()
    """the networks that `predict` needs; all, if none is named"""
    parts = ALL
    """what there is of the learner: one that was saved with `inference_only` lacks what it needs to go on learning"""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "settings_type" in cls.__dict__:
            LEARNERS[cls.settings_type.name] = cls

    def __init__(
        self, recipe: Recipe | None = None, *, seed: int | None = None, device: str | torch.device | None = None
    ) -> None:
        recipe = Recipe(method=self.settings_type()) if recipe is None else recipe
        if not isinstance(recipe, Recipe):
            raise InputError(f"Expected a Recipe but got {recipe!r}: load_recipe gives one by its name.")
        if recipe.method.name != self.settings_type.name:
            raise InputError(
                f"Expected a recipe for the method {self.settings_type.name} but {recipe.name!r} is for "
                f"{recipe.method.name}: ictrl.create_learner(recipe) makes the right learner."
            )
        self.recipe = recipe
        self.seed = whole_number(recipe.run.seed if seed is None else seed, "seed", least=0)
        self.device = resolve_device(recipe.run.device if device is None else device)
        self.labels: list[int] = []  # in the order of learning
        self.class_names: dict[int, str] = {}
        self._by_name = False  # whether it was taught by these
        self.kept: Kept = self.kept_from([], {})
        self._gate = Gate()
        # drawn on the CPU whatever the device, so that a seed means the same initial networks everywhere
        self._state = self.build(torch.Generator().manual_seed(self.seed))

    # what a method writes

    @abstractmethod
    def build(self, initial: torch.Generator) -> TrainingState:
        """Networks, their optimisers and a generator on `self.device`; weights are drawn from `initial`, on the CPU."""

    @abstractmethod
    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> Kept:
        """Learn one task of new classes and return what is kept of all; `y` lies on the learner's device."""

    @abstractmethod
    def class_scores(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
        """A score of every class learned so far, labels ascending, the largest for the predicted one."""

    def scorer(self) -> Callable[[Tensor], Tensor]:
        """`class_scores` as it is exported: with all that follows from what is kept computed beforehand."""
        return self.class_scores

    def kept_tensors(self) -> dict[str, Tensor]:
        """Everything that is kept besides the networks' weights, by name."""
        return {}

    def kept_from(self, labels: list[int], tensors: dict[str, Tensor]) -> Kept:
        """The inverse of `kept_tensors`; KeyError or ValueError if they do not fit."""
        return None  # type: ignore[return-value]

    def kept_to_predict(self) -> dict[str, Tensor]:
        """Those of `kept_tensors` that `predict` needs."""
        return self.kept_tensors()

    def kept_to_predict_from(self, labels: list[int], tensors: dict[str, Tensor]) -> Kept:
        """The inverse of `kept_to_predict`; KeyError or ValueError if they do not fit."""
        return self.kept_from(labels, tensors)

    def resize(self, classes: int) -> None:
        """Make the networks as large as so many classes need, before a saved learner's weights are read."""

    # what it gets

    @reads
    def __repr__(self) -> str:
        about = f"{len(self.labels)} classes, {self.parameter_count} parameters, {self.device}"
        return f"{type(self).__name__}({self.recipe.name!r}, {about})"

    @property
    def settings(self) -> Any:
        """The method's settings, an instance of its `settings_type`."""
        return self.recipe.method

    @property
    @reads
    def classes_(self) -> NDArray[Any]:
        """Labels learned so far: numbers ascending, names in the order of learning (of one task by the alphabet)."""
        numbers = sorted(self.labels)
        return np.array([self.class_names[n] for n in numbers] if self._by_name else np.array(numbers, np.int64))

    @property
    @reads
    def kept_bytes(self) -> int:
        """Everything that is kept besides the networks' weights, labels and images included."""
        kept = sum(tensor.numel() * tensor.element_size() for tensor in self.kept_tensors().values())
        return kept + LABEL_BYTES * len(self.labels)

    @property
    @reads
    def parameter_count(self) -> int:
        """Trainable numbers in the networks."""
        return parameter_count(*self._state.networks.values())

    @learns
    def learn(
        self,
        images: Any,
        labels: ArrayLike | None = None,
        progress: Progress | None = None,
        *,
        resume: str | Path | None = None,
        profiler: Profiler | None = None,
        verbose: bool = False,
    ) -> Self:
        """Learn one task: all images of some new classes. It succeeds or leaves the learner as it was.

        `labels` may be left out where the images bring them. `progress` is called after every epoch; it may call
        `save_task` on this learner. `resume` is a file that `save_task` wrote during this very task, and learning goes
        on from there exactly as it would have. `profiler` is told where the time goes; `verbose` prints some lines.
        """
        check_can_learn(self, "learn")
        X, y, new_names = self._labelled(images, labels)
        check_new_classes(y, self.labels, {**self.class_names, **new_names})
        stopped = stopped_task(self, Path(resume)) if resume is not None else None
        if verbose:
            progress = narrated(len(y.unique()), len(X), progress)
        self.kept = self.learn_task(X, y.to(self.device), TaskHooks(progress, stopped, profiler))
        self.labels = [*self.labels, *y.unique().tolist()]
        self.class_names, self._by_name = {**self.class_names, **new_names}, bool(new_names)
        return self

    @reads
    def predict(self, images: Images) -> Images:
        """The label of each image, from what is kept alone."""
        columns = self._scored(images, "predict").argmax(1)
        named = self._by_name
        return self.classes_[columns.cpu().numpy()] if named else like(self._classes_on_device()[columns], images)

    @reads
    def scores(self, images: Images) -> Images:
        """A score of each of `classes_` for each image: (n, classes), the largest for the class predicted."""
        return like(self._scored(images, "scores"), images)

    @reads
    def save(
        self,
        path: str | Path,
        notes: Mapping[str, str] | None = None,
        *,
        inference_only: bool = False,
        decoder: bool = False,
    ) -> None:
        """Write everything, optimisers and random state included, as one safetensors file; atomically.

        With `inference_only` just what `predict` needs, and with `decoder` also what drawing needs. `notes` are texts
        of your own; `ictrl.methods.storage.read_stored` gives them back.
        """
        parts, tensors = parts_of(self, inference_only, decoder)
        recipe = without_place(self.recipe) if inference_only else self.recipe
        self._write(Path(path), LEARNER, tensors, recipe, notes=dict(notes or {}), parts=parts)

    def save_task(self, path: str | Path, report: EpochReport) -> None:
        """Write a task that is being learned, from within `learn`'s progress callback, so that it can be resumed."""
        self._write(Path(path), STOPPED_TASK, report.state.tensors(), epoch=report.epoch)

    @classmethod
    def load(
        cls, path: str | Path, device: str | torch.device | None = None, recipe: Recipe | None = None, **networks: Any
    ) -> Self:
        """Read what `save` wrote, or the newest learner of a run folder; a file from a stranger cannot run code.

        On the kind of device it was saved on, learning goes on exactly as it would have; or by another recipe, if one
        is given, with networks of the same shape. Networks that were given to the learner must be given again.
        """
        return cls.of_stored(read_learner(Path(path)), path, device, recipe, **networks)

    @classmethod
    def of_stored(
        cls, stored: Stored, path: str | Path, device: Any = None, recipe: Recipe | None = None, **networks: Any
    ) -> Self:
        """The learner that a file holds."""
        if stored.recipe.method.name != cls.settings_type.name:
            raise InputError(
                f"Expected a learner of the method {cls.settings_type.name} but {path} holds one of "
                f"{stored.recipe.method.name}: ictrl.load_learner reads any."
            )

        def read() -> Any:
            if not networks:  # those of one's own are as large as they are
                empty = partial(cls, recipe or stored.recipe, seed=stored.seed, device="meta")
                check_size(empty, stored, path, cls.misfit)
            learner = cls(recipe or stored.recipe, seed=stored.seed, device=device, **networks)
            learner.load_stored(stored, path)
            return learner

        learner = read() if stored.parts == ALL else without_optimisers(read)
        check_answers(learner, path)
        return learner

    def load_stored(self, stored: Stored, path: str | Path) -> None:
        """Take over what a file holds."""
        with fitting(path, self.misfit):
            self.resize(len(stored.labels))
            load_parts(self, stored)
            self.class_names, self._by_name = names_from_notes(stored.notes, stored.labels)

    def _labelled(self, images: Any, labels: Any) -> tuple[UInt8[Tensor, "n c h w"], Int[Tensor, " n"], dict[int, str]]:
        """Images, the numbers of their classes, and the names of those that are new, if they are called by name."""
        network = self.recipe.method.network
        X, brought = images_and_labels(images, network.channels, network.image_size)
        values = checked_labels(brought if labels is None else labels, len(X))
        return X, *numbered(values, self.labels, self.class_names, self._by_name)

    def _scored(self, images: Any, caller: str) -> Float[Tensor, "n k"]:
        self._check_learned(caller)
        return self.class_scores(self._checked(images))

    def _classes_on_device(self) -> Int[Tensor, " k"]:
        return torch.tensor(sorted(self.labels), device=self.device)

    def _checked(self, images: Any) -> UInt8[Tensor, "n c h w"]:
        network = self.recipe.method.network
        return checked_images(images, network.channels, network.image_size)

    def _check_learned(self, caller: str) -> None:
        if not self.labels:
            raise not_learned(caller)

    def _write(
        self,
        path: Path,
        kind: str,
        tensors: dict[str, Tensor],
        recipe: Recipe | None = None,
        notes: Mapping[str, str] | None = None,
        **about: Any,
    ) -> None:
        noted = names_to_notes(self.class_names, self._by_name, notes or {})
        about |= {"notes": noted}
        write_stored(
            path, kind, Stored(recipe or self.recipe, self.seed, self.labels, self.device.type, tensors, **about)
        )


def create_learner(
    recipe: Recipe, *, seed: int | None = None, device: str | torch.device | None = None
) -> Learner[Any]:
    """A new learner of the method that the recipe names."""
    return LEARNERS[recipe.method.name](recipe, seed=seed, device=device)


def load_learner(
    path: str | Path, device: str | torch.device | None = None, recipe: Recipe | None = None
) -> Learner[Any]:
    """Read a saved learner, or the newest one of a run folder, whatever its method."""
    stored = read_learner(Path(path))
    return LEARNERS[stored.recipe.method.name].of_stored(stored, path, device, recipe)
