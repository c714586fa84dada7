"""Every setting, once: frozen dataclasses, one per concern.

The defaults are the paper's settings for CIFAR-10 with what has mostly proved best from memory alone
(docs/experiments.md): a smaller λ, anchors, transport, more samples, averaged weights, a Gaussian classifier. What
depends on the pictures, such as mirroring and turning them, is off. Recipes (`recipefiles`) say what they change.
"""

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

from ictrl.errors import ConfigError


@dataclass(frozen=True)
class NetworkConfig:
    """The encoder and the decoder."""

    image_size: int = 32
    """side of the (square) images in pixels: 8, 16, 32, 64, 128 or 256; the depth follows from it"""
    channels: int = 3
    """1 for grey images, 3 for colour"""
    width: int = 64
    """channels of the layer next to the image; they double from layer to layer, up to eight times this"""
    feature_dim: int = 128
    """d, the number of features"""

    def __post_init__(self) -> None:
        _require(self.image_size in (8, 16, 32, 64, 128, 256), self, "image_size", "8, 16, 32, 64, 128 or 256")
        _require(self.channels >= 1, self, "channels", "at least 1")
        _require(self.width >= 1, self, "width", "at least 1")
        _require(self.feature_dim >= 2, self, "feature_dim", "at least 2")


@dataclass(frozen=True)
class ObjectiveConfig:
    """Weights of the terms of the game."""

    lambda_new: float = 3.0
    """λ, weight of the new classes' distance ΔR(Z_new, Ẑ_new) in every task but the first"""
    lambda_first: float = 1.0
    """the same in the first task, where the paper has no λ"""
    gamma_old: float = 1.0
    """γ, weight of the constraint ΔR(Z_old, Ẑ_old) on old memory"""
    eps_sq: float = 1.0
    """ε², the squared error up to which features are encoded"""

    def __post_init__(self) -> None:
        _require(_finite(self.lambda_new) and self.lambda_new >= 0, self, "lambda_new", "at least 0")
        _require(_finite(self.lambda_first) and self.lambda_first >= 0, self, "lambda_first", "at least 0")
        _require(_finite(self.gamma_old) and self.gamma_old >= 0, self, "gamma_old", "at least 0")
        _require(_finite(self.eps_sq) and self.eps_sq > 0, self, "eps_sq", "above 0")


@dataclass(frozen=True)
class AnchorsConfig:
    """Beyond the paper: what holds the players where they were while they learn a later task. 0 is off."""

    new: float = 5.0
    """what the encoder pays for ‖f(x) − f_before(x)‖² on the new task's images"""
    replayed: float = 20.0
    """the same on images replayed from memory"""
    loop: float = 0.0
    """what both players pay for ‖f(g(z)) − z‖² on features z drawn from memory"""
    redrawn: float = 0.0
    """what the decoder pays for ‖g(z) − g_before(z)‖² a pixel on features z drawn from memory"""

    def __post_init__(self) -> None:
        for name in ("new", "replayed", "loop", "redrawn"):
            weight = getattr(self, name)
            _require(_finite(weight) and weight >= 0, self, name, "at least 0")


@dataclass(frozen=True)
class MemoryConfig:
    """What is kept of a class, and how much of it is replayed."""

    directions: int = 12
    """r, principal directions a class"""
    neighbours: int = 40
    """k, features that form the Gaussian of a direction"""
    samples: int = 40
    """m, features drawn from each Gaussian when old classes are replayed"""
    transport: bool = True
    """beyond the paper: after each task, move the stored moments along with the encoder"""
    transport_replayed: float = 0.0
    """what images replayed from memory weigh beside the new ones when the transport is fitted; anchors hold them where
    they were, so that they move less than the images they stand for"""
    transport_ridge: float = 0.1
    """pull of the transport towards the identity, as a share of the features' mean eigenvalue"""

    def __post_init__(self) -> None:
        _require(self.directions >= 1, self, "directions", "at least 1")
        _require(self.neighbours >= 2, self, "neighbours", "at least 2 (the mean of one is that feature itself)")
        _require(self.samples >= 1, self, "samples", "at least 1")
        replayed = self.transport_replayed
        _require(_finite(replayed) and replayed >= 0, self, "transport_replayed", "at least 0")
        _require(_finite(self.transport_ridge) and self.transport_ridge > 0, self, "transport_ridge", "above 0")


@dataclass(frozen=True)
class ClassifierConfig:
    """How an image's class is told from the stored means and covariances."""

    kind: Literal["subspace", "gaussian"] = "gaussian"
    """the nearest subspace (paper), or the likeliest Gaussian, beyond the paper"""
    components: int | None = 15
    """subspace: its dimension in every class; None to choose it by energy"""
    energy: float | None = None
    """subspace: share of each class's variance that it keeps, from 0 to 1; needs components None"""
    pooled: float = 0.8
    """gaussian: how much of the covariance is the mean over all classes, from 0 to 1"""
    shrinkage: float = 0.2
    """gaussian: how much of the covariance is the same in all directions, above 0 and up to 1"""
    mirrored: bool = False
    """look at the mirror image of every image too, and add up what is seen; for pictures that may be mirrored"""

    def __post_init__(self) -> None:
        _require(self.kind in ("subspace", "gaussian"), self, "kind", '"subspace" or "gaussian"')
        _require(0 <= self.pooled <= 1, self, "pooled", "from 0 to 1")
        _require(0 < self.shrinkage <= 1, self, "shrinkage", "above 0 and at most 1")
        if (self.components is None) == (self.energy is None):
            raise ConfigError(
                "Expected exactly one of classifier.components and classifier.energy but got "
                f"{self.components} and {self.energy}: set the other to none."
            )
        _require(self.components is None or self.components >= 1, self, "components", "at least 1")
        _require(self.energy is None or 0 < self.energy <= 1, self, "energy", "above 0 and at most 1")


@dataclass(frozen=True)
class GameConfig:
    """The minimax game on one task."""

    epochs: int = 120
    """passes over the images of each later task"""
    first_epochs: int = 120
    """passes over the images of the first task"""
    batch: int | Literal["rule"] = "rule"
    """images a step in later tasks; "rule": directions · samples · old classes · new classes, as the authors have it"""
    first_batch: int = 1000
    """images a step in the first task, at most: 100 or 200 of each class learn more than 50"""
    learning_rate: float = 1e-4
    """of both Adam optimisers"""
    beta1: float = 0.5
    """Adam's first moment"""
    beta2: float = 0.999
    """Adam's second moment"""
    precision: Literal["auto", "bfloat16", "float32"] = "auto"
    """of the convolutions; auto: bfloat16 on a GPU, float32 elsewhere. Rates and weights are float32 in any case"""
    replay: Literal["live", "frozen"] = "live"
    """old memory decoded by the decoder as it is now (paper), or as it was when the task began (the authors' code)"""
    resample: Literal["task", "step"] = "task"
    """draw features from old memory once a task, or afresh each step"""
    flips: bool = False
    """mirror half of the images left to right, at random"""
    shifts: int = 0
    """move each image by up to so many pixels up, down and sideways, at random"""
    first_turns: bool = False
    """in the first task, turn each image by 0 to 3 quarters at random and learn each turn as a class of its own, to be
    forgotten afterwards: features that tell turns apart know more about classes to come"""
    averaged: float = 10.0
    """epochs over which both players' weights are averaged; their mean remains of a task. 0: the last weights"""
    schedule: Literal["constant", "cosine"] = "constant"
    """the learning rate within a task: as it is, or falling to 0 along half a cosine"""
    optimiser: Literal["kept", "fresh"] = "kept"
    """Adam's moments after the first task, kept or begun afresh; with those kept, features were seen to move far in the
    first epoch of the second task"""
    warmup: int = 0
    """epochs at the beginning of a later task during which the learning rate rises"""

    def __post_init__(self) -> None:
        _require(self.epochs >= 1, self, "epochs", "at least 1")
        _require(self.first_epochs >= 1, self, "first_epochs", "at least 1")
        _require(self.batch == "rule" or self.batch >= 1, self, "batch", '"rule" or at least 1')
        _require(self.first_batch >= 1, self, "first_batch", "at least 1")
        _require(_finite(self.learning_rate) and self.learning_rate > 0, self, "learning_rate", "above 0")
        _require(0 <= self.beta1 < 1, self, "beta1", "at least 0 and below 1")
        _require(0 <= self.beta2 < 1, self, "beta2", "at least 0 and below 1")
        known = ("auto", "bfloat16", "float32")
        _require(self.precision in known, self, "precision", '"auto", "bfloat16" or "float32"')
        _require(self.replay in ("live", "frozen"), self, "replay", '"live" or "frozen"')
        _require(self.resample in ("task", "step"), self, "resample", '"task" or "step"')
        _require(self.shifts >= 0, self, "shifts", "at least 0")
        _require(_finite(self.averaged) and self.averaged >= 0, self, "averaged", "at least 0")
        _require(self.schedule in ("constant", "cosine"), self, "schedule", '"constant" or "cosine"')
        _require(self.optimiser in ("kept", "fresh"), self, "optimiser", '"kept" or "fresh"')
        _require(self.warmup >= 0, self, "warmup", "at least 0")


@dataclass(frozen=True)
class DataConfig:
    """The images, and how their classes arrive."""

    name: Literal["digits", "mnist", "fashion-mnist", "cifar10", "cifar100", "folder", "npz", "hub"] = "digits"
    """a dataset that `ictrl data list` lists; folder, npz and hub are for data of your own choice"""
    root: str | None = None
    """folder that holds the dataset's files, by default where downloads go; your own folder or .npz file"""
    test_share: float = 0.2
    """share of each class held out as test images where the data has no test part of its own (folder, hub)"""
    hub_name: str | None = None
    """for hub: the dataset's name there, such as ylecun/mnist"""
    hub_configuration: str | None = None
    """for hub: which of the dataset's configurations, where it has several"""
    hub_image: str | None = None
    """for hub: the column of images, where it has several"""
    hub_label: str | None = None
    """for hub: the column of labels, where it has several"""
    tasks: int = 5
    """the classes arrive in this many tasks of equally many classes"""
    task_sizes: tuple[int, ...] = ()
    """classes of each task by hand, such as 50 10 10 10 10 10; takes the place of tasks"""
    class_order: tuple[int, ...] = ()
    """every class once, in the order in which they arrive; ascending by default"""
    class_order_seed: int | None = None
    """shuffle the order in which classes arrive; None leaves it as it is"""
    subset: float = 1.0
    """share of each class's training images to learn from"""
    subset_seed: int = 0
    """which images subset, halved_tasks and limit choose"""
    halved_tasks: tuple[int, ...] = ()
    """tasks, counted from 1, whose classes have fewer training images than the others"""
    halved_share: float = 0.5
    """share of their training images that the classes of halved_tasks keep"""
    limit: int | None = None
    """at most so many training and so many test images a class, for a quick try"""
    validation: float = 0.0
    """share of each class's training images that takes the place of the test images: to choose settings by"""

    def __post_init__(self) -> None:
        names = get_args(DataConfig.__annotations__["name"])
        _require(self.name in names, self, "name", "one of " + ", ".join(names))
        _require(0 < self.test_share < 1, self, "test_share", "above 0 and below 1")
        _require(self.tasks >= 1, self, "tasks", "at least 1")
        _require(all(size >= 1 for size in self.task_sizes), self, "task_sizes", "at least 1 each")
        _require(_distinct(self.class_order), self, "class_order", "different classes, each once,")
        _require(
            self.class_order_seed is None or not self.class_order,
            self,
            "class_order_seed",
            "None where class_order is given: a given order is not shuffled",
        )
        for name in ("class_order_seed", "subset_seed"):
            value = getattr(self, name)
            _require(value is None or 0 <= value < 2**63, self, name, "from 0 to 2^63 − 1")
        _require(0 < self.subset <= 1, self, "subset", "above 0 and at most 1")
        tasks_exist = _distinct(self.halved_tasks) and all(number >= 1 for number in self.halved_tasks)
        _require(tasks_exist, self, "halved_tasks", "different tasks counted from 1")
        _require(0 < self.halved_share <= 1, self, "halved_share", "above 0 and at most 1")
        _require(0 <= self.validation < 1, self, "validation", "at least 0 and below 1")
        _require(self.limit is None or self.limit >= 2, self, "limit", "at least 2, which is the fewest a class needs,")


@dataclass(frozen=True)
class CheckpointConfig:
    """How often a run can be resumed from, besides the end of each task. It changes no result."""

    every_epochs: int = 0
    """write a checkpoint after so many epochs of a task; 0 for never"""
    every_minutes: float = 10.0
    """write a checkpoint after so many minutes of a task; 0 for never"""

    def __post_init__(self) -> None:
        _require(self.every_epochs >= 0, self, "every_epochs", "at least 0")
        _require(_finite(self.every_minutes) and self.every_minutes >= 0, self, "every_minutes", "at least 0")


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a run."""

    name: str = "custom"
    """what results and run folders are called"""
    description: str = ""
    """one line on what this recipe shows"""
    seed: int = 0
    """of initial weights, shuffles and memory samples"""
    device: str = "auto"
    """cpu, cuda, cuda:1 …; auto takes a GPU where there is one"""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    anchors: AnchorsConfig = field(default_factory=AnchorsConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    classifier: ClassifierConfig = field(default_factory=ClassifierConfig)
    game: GameConfig = field(default_factory=GameConfig)
    data: DataConfig = field(default_factory=DataConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)

    def __post_init__(self) -> None:
        _require(0 <= self.seed < 2**63, self, "seed", "from 0 to 2^63 − 1")
        components, d = self.classifier.components, self.network.feature_dim
        if components is not None and components >= d:
            raise ConfigError(
                f"Expected classifier.components below network.feature_dim ({d}) but got {components}: "
                "a subspace that is the whole space tells no class from another."
            )


def _distinct(values: tuple[int, ...]) -> bool:
    return len(set(values)) == len(values)


def _finite(value: float) -> bool:
    return math.isfinite(value)


def _require(holds: bool, config: object, name: str, expected: str) -> None:
    if not holds:
        section = type(config).__name__.removesuffix("Config").lower()
        where = name if section == "recipe" else f"{section}.{name}"
        raise ConfigError(f"Expected {where} to be {expected} but got {getattr(config, name)!r}.")
