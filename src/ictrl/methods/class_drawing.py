"""What methods share that draw whole images of a class, and have no directions to draw along."""

from abc import abstractmethod

import torch
from torch import Tensor

from ictrl.errors import InputError
from ictrl.methods.base import Kept
from ictrl.methods.inference import check_can_draw
from ictrl.methods.inputs import Images, like, seeded, whole_number
from ictrl.methods.labels import listed, number_of
from ictrl.methods.supervised import SupervisedLearner
from ictrl.methods.threads import reads
from ictrl.nets.wrappers import to_uint8
from ictrl.shapes import Float, Int, UInt8
from ictrl.training.state import TrainingState

SEEN = 40  # images drawn of each class to see whether they are recognised


class ClassDrawingLearner(SupervisedLearner[Kept]):
    """A classifier, and beside it networks that draw; the one that images come out of is called `decoder`."""

    predicts_by = ("encoder", "head")

    # what a method writes

    @abstractmethod
    def drawn(self, row: int, n: int, generator: torch.Generator) -> Float[Tensor, "n c h w"]:
        """n images in [−1, 1] of the class in that place of the order of learning; no gradient is wanted."""

    @abstractmethod
    def redrawn(self, X: UInt8[Tensor, "n c h w"], rows: Int[Tensor, " n"]) -> Float[Tensor, "n c h w"]:
        """Each image, of a class as it is predicted, as the networks can draw it."""

    # what it gets

    def build(self, initial: torch.Generator) -> TrainingState:
        # looking at samples must not change what is learned next: they have a generator of their own
        self._display_generator = seeded(self.device, self.seed)
        return super().build(initial)

    @reads
    def sample(self, label: int | str, n: int, direction: int | None = None) -> UInt8[Tensor, "n c h w"]:
        """Draw n images of a class; there are no directions."""
        check_can_draw(self, "sample")
        self._check_learned("sample")
        number, n = number_of(label, self.class_names, self._by_name), whole_number(n, "n", least=1)
        if number not in self.labels:
            raise InputError(f"Expected a learned label but got {number}; learned are {listed(self.classes_)}.")
        if direction is not None:
            name = self.recipe.method.name
            raise InputError(f"Expected no direction but got {direction}: {name} keeps none of a class.")
        with torch.no_grad():
            return to_uint8(self.drawn(self.labels.index(number), n, self._display_generator)).cpu()

    @reads
    def reconstruct(self, images: Images) -> Images:
        """Each image as the networks can draw it, uint8."""
        check_can_draw(self, "reconstruct")
        self._check_learned("reconstruct")
        X = self._checked(images)
        numbers = self._classes_on_device()[self.class_scores(X).argmax(1)]
        rows = (numbers[:, None] == torch.tensor(self.labels, device=self.device)).long().argmax(1)
        return like(to_uint8(self.redrawn(X, rows).detach()), images)


class RecognisedDrawing(ClassDrawingLearner[Kept]):
    """Knows of an image which class it was drawn as, whatever the classifier takes it for."""

    @reads
    def replay_recognised(self) -> float:
        """Share of images drawn of each class for which `predict` gives that class."""
        check_can_draw(self, "replay")
        self._check_learned("replay")
        generator, right = seeded(self.device, 0), 0.0
        for row, label in enumerate(self.labels):
            with torch.no_grad():
                images = to_uint8(self.drawn(row, SEEN, generator))
            found = self._classes_on_device()[self.class_scores(images).argmax(1)]
            right += float((found == label).double().mean())
        return right / len(self.labels)
