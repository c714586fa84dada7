"""Every setting, once: frozen dataclasses, one per concern.

A `Recipe` is a method with its settings, a stream of tasks, and a run. Methods bring their own settings: each is a
subclass of `MethodConfig`, known by its name as soon as it is defined, so that recipe files and command line find it.
Those of i-CTRL are here; training is described by one kind of stage, of which there are two, `first` and `later`.

The defaults are the paper's settings for CIFAR-10 with what has mostly proved best from memory alone
(experiments/README.md): a smaller λ, feature distillation, drift compensation, more samples, an EMA of the weights, a
Gaussian classifier. What depends on the pictures, such as mirroring and rotating them, is off. Recipes say what they
change.
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar

from ictrl.errors import ConfigError

T = TypeVar("T")


def used_later(default: T) -> T:
    """A setting that no first task depends on: runs that differ in such alone can share theirs."""
    return field(default=default, metadata={"used_later": True})


def _distinct(values: tuple[int, ...]) -> bool:
    return len(set(values)) == len(values)


def _finite(value: float) -> bool:
    return math.isfinite(value)


def _require(holds: bool, config: object, name: str, expected: str, remedy: str = "") -> None:
    if not holds:
        section = type(config).__name__.removesuffix("Config").lower()
        where = name if section == "run" or section.endswith("stage") else f"{section}.{name}"
        raise ConfigError(f"Expected {where} to be {expected} but got {getattr(config, name)!r}{remedy}.")


# Networks

LEAST_DEVIATION = 0.001  # of a channel's pixels: a quarter of the step between two of 256 levels


@dataclass(frozen=True)
class NetworkConfig:
    """The encoder and the decoder."""

    image_size: int = 32
    """side of the (square) images in pixels: 8, 16, 32, 64, 128 or 256; the depth follows from it. With kind "mlp" also
    28, that of MNIST"""
    channels: int = 3
    """1 for grey images, 3 for colour"""
    kind: Literal["dcgan", "resnet", "resnet18", "mlp"] = "dcgan"
    """the encoder: the paper's, a residual one, deeper and slower, the ResNet-18 of papers on continual learning, whose
    feature_dim is eight times the width, or their multilayer perceptron for MNIST (the decoder remains the paper's)"""
    width: int = 64
    """channels of the layer next to the image; they double from layer to layer, up to eight times this. Of an mlp the
    units of its first layer"""
    decoder_width: int | None = None
    """the same for the decoder; None: as wide as the encoder. The authors' decoder (512-256-128) has 128"""
    feature_dim: int = 128
    """d, the number of features"""
    initialisation: Literal["own", "torch"] = "own"
    """how the encoder's layers begin: as the kind of network has it, or as in PyTorch, uniform in ±1/√fan-in"""
    pixel_means: tuple[float, ...] = ()
    """of each channel, from 0 (black) to 1: the encoder sees (pixel − mean) / deviation, as many papers have it. Where
    none are given it sees pixels from −1 to 1"""
    pixel_deviations: tuple[float, ...] = ()
    """of each channel, as a share of white; goes with pixel_means"""

    def __post_init__(self) -> None:
        sizes = (8, 16, 28, 32, 64, 128, 256) if self.kind == "mlp" else (8, 16, 32, 64, 128, 256)
        remedy = ': 28 is for kind "mlp"' if self.image_size == 28 else ""
        expected = f"{', '.join(map(str, sizes[:-1]))} or {sizes[-1]}"
        _require(self.image_size in sizes, self, "image_size", expected, remedy)
        _require(self.channels >= 1, self, "channels", "at least 1")
        kinds = ("dcgan", "resnet", "resnet18", "mlp")
        _require(self.kind in kinds, self, "kind", '"dcgan", "resnet", "resnet18" or "mlp"')
        _require(self.width >= 1, self, "width", "at least 1")
        _require(self.decoder_width is None or self.decoder_width >= 1, self, "decoder_width", "none or at least 1")
        _require(self.feature_dim >= 2, self, "feature_dim", "at least 2")
        _require(self.initialisation in ("own", "torch"), self, "initialisation", '"own" or "torch"')
        self._check_pixels()

    def _check_pixels(self) -> None:
        """Whether means and deviations of pixels go together and are shares of white."""
        means, deviations = self.pixel_means, self.pixel_deviations
        each = f"{self.channels} {'number' if self.channels == 1 else 'numbers'}, one for each channel"
        for name, values in (("pixel_means", means), ("pixel_deviations", deviations)):
            numbers = isinstance(values, tuple) and all(isinstance(v, int | float) for v in values)
            _require(numbers, self, name, f"a tuple of {each}, or empty")
            given = " ".join(map(str, values)) or "none"
            expected = f"Expected network.{name} to be {each}, but got {given}"
            if not values and (means or deviations):
                raise ConfigError(f"{expected}: pixel_means and pixel_deviations go together, give both or neither.")
            if values and len(values) != self.channels:
                raise ConfigError(f"{expected}.")
            if any(v > 1 for v in values):
                raise ConfigError(f"{expected}: they are shares of white; divide by 255 what goes from 0 to 255.")
        _require(all(m >= 0 for m in means), self, "pixel_means", "from 0 to 1")
        _require(
            all(d >= LEAST_DEVIATION for d in deviations), self, "pixel_deviations", f"from {LEAST_DEVIATION} to 1"
        )
        expected = 'none with kind "mlp", which takes pixels from 0 to 1'
        _require(not means or self.kind != "mlp", self, "pixel_means", expected)


# Stages of training


@dataclass(frozen=True)
class AugmentationConfig:
    """What is done to a training image, at random, before a network sees it."""

    mirror: bool = False
    """mirror half of the images left to right"""
    shifts: int = 0
    """move each image by up to so many pixels up, down and sideways"""
    rotations: bool = False
    """turn each image by 0 to 3 quarters and learn each rotation as a class of its own, to be forgotten after the task:
    features that tell rotations apart know more about classes to come"""
    crop: float = 1.0
    """show a part of each image, enlarged to the whole: at least this share of its area; 1 shows all of it"""
    jitter: float = 0.0
    """change brightness, contrast and saturation each by a factor of up to 1 ± this"""
    grey: float = 0.0
    """share of the images that lose their colour"""
    edges: Literal["repeated", "black"] = "repeated"
    """what comes in where `shifts` moves an image: its edge again, or black, as papers with padded crops have it"""

    def __post_init__(self) -> None:
        _require(self.shifts >= 0, self, "shifts", "at least 0")
        _require(self.edges in ("repeated", "black"), self, "edges", '"repeated" or "black"')
        _require(0 < self.crop <= 1, self, "crop", "above 0 and at most 1")
        _require(0 <= self.jitter < 1, self, "jitter", "at least 0 and below 1")
        _require(0 <= self.grey <= 1, self, "grey", "from 0 to 1")

    @property
    def moves_or_recolours(self) -> bool:
        """Whether an image is shown otherwise than as it is or mirrored."""
        return bool(self.shifts or self.rotations or self.crop < 1 or self.jitter or self.grey)


@dataclass(frozen=True)
class StageConfig:
    """One stage of training, the first task or any later one."""

    least_epochs: ClassVar[int] = 1
    instead_of_none: ClassVar[str] = ""
    """what to do for a stage of no epochs"""

    epochs: int = 120
    """passes over the images of a task"""
    batch: int | Literal["rule"] = 1000
    """images per step, at most: 100 or 200 of each class learn more than 50. "rule", in later tasks of i-CTRL:
    directions · samples · old classes · new classes, as the authors have it"""
    learning_rate: float = 1e-4
    """of every optimiser"""
    schedule: Literal["constant", "cosine", "restarts"] = "constant"
    """the learning rate within a task: as it is; falling to 0 along half a cosine; or (SGDR) falling to a hundredth, in
    cycles of 1, 2, 4, … epochs that begin after the warmup"""
    warmup: int = 0
    """epochs at the beginning of a task during which the learning rate rises"""
    ema: float = 10.0
    """epochs over which the exponential moving average of the weights reaches back; it is what remains of a task.
    0: the last weights"""
    augmentation: AugmentationConfig = field(default_factory=AugmentationConfig)

    def __post_init__(self) -> None:
        _require(
            self.epochs >= self.least_epochs, self, "epochs", f"at least {self.least_epochs}", self.instead_of_none
        )
        _require(self.batch == "rule" or self.batch >= 1, self, "batch", '"rule" or at least 1')
        _require(_finite(self.learning_rate) and self.learning_rate > 0, self, "learning_rate", "above 0")
        known = ("constant", "cosine", "restarts")
        _require(self.schedule in known, self, "schedule", '"constant", "cosine" or "restarts"')
        _require(self.warmup >= 0, self, "warmup", "at least 0")
        _require(_finite(self.ema) and self.ema >= 0, self, "ema", "at least 0")


@dataclass(frozen=True)
class WeightsConfig:
    """Weights of the terms of the game (`theory/objectives.py`), none below 0: signs belong to the players.

    Those of old classes do nothing in the first task, where there are none."""

    lambda_new: float = 1.0
    """λ, weight of the new classes' distance ΔR(Z_new, Ẑ_new)"""
    gamma_old: float = 1.0
    """γ, weight of the constraint ΔR(Z_old, Ẑ_old) on old memory"""
    distill_new: float = 0.0
    """feature distillation: what the encoder pays for ‖f(x) − f_before(x)‖² on the new task's images"""
    distill_replayed: float = 0.0
    """feature distillation on images replayed from memory: what the encoder pays for ‖f(x̂) − f_before(x̂)‖²"""
    loop: float = 0.0
    """what both players pay for ‖f(g(z)) − z‖² on features z drawn from memory"""
    redrawn: float = 0.0
    """what the decoder pays for ‖g(z) − g_before(z)‖² per pixel on features z drawn from memory"""
    match_new: float = 0.0
    """feature matching: what the decoder pays for the distance of g(f(x)) from the new image x, as such and to each of
    the encoder's stages, as a share of the variance. In first tasks too"""
    match_replayed: float = 0.0
    """feature matching on features z drawn from memory: the same for g(z) and g_before(z)"""

    def __post_init__(self) -> None:
        for name, weight in vars(self).items():
            _require(_finite(weight) and weight >= 0, self, name, "at least 0")


@dataclass(frozen=True)
class GameStageConfig(StageConfig):
    """A stage of the minimax game: training, and the weights of its terms."""

    instead_of_none: ClassVar[str] = ": the method frozen is the one that learns nothing after the first task"

    weights: WeightsConfig = field(default_factory=WeightsConfig)


# i-CTRL


@dataclass(frozen=True)
class GameConfig:
    """The minimax game, whatever the task."""

    eps_sq: float = 1.0
    """ε², the squared error up to which features are encoded"""
    beta1: float = 0.5
    """Adam's first moment, of both optimisers"""
    beta2: float = 0.999
    """Adam's second moment"""
    optimiser: Literal["kept", "fresh"] = "kept"
    """Adam's moments after the first task, kept or begun afresh; with those kept, features were seen to move far in the
    first epoch of the second task"""
    precision: Literal["auto", "bfloat16", "float32"] = "auto"
    """of the convolutions; auto: bfloat16 on a GPU, float32 elsewhere. Rates and weights are float32 in any case"""
    replay: Literal["live", "frozen"] = used_later("live")
    """old memory decoded by the decoder as it is now (paper), or as it was when the task began (the authors' code)"""
    resample: Literal["task", "step"] = used_later("task")
    """draw features from old memory once per task, or afresh each step"""

    def __post_init__(self) -> None:
        _require(_finite(self.eps_sq) and self.eps_sq > 0, self, "eps_sq", "above 0")
        _require(0 <= self.beta1 < 1, self, "beta1", "at least 0 and below 1")
        _require(0 <= self.beta2 < 1, self, "beta2", "at least 0 and below 1")
        _require(self.optimiser in ("kept", "fresh"), self, "optimiser", '"kept" or "fresh"')
        known = ("auto", "bfloat16", "float32")
        _require(self.precision in known, self, "precision", '"auto", "bfloat16" or "float32"')
        _require(self.replay in ("live", "frozen"), self, "replay", '"live" or "frozen"')
        _require(self.resample in ("task", "step"), self, "resample", '"task" or "step"')


@dataclass(frozen=True)
class MemoryConfig:
    """What is kept of a class, and how much of it is replayed."""

    directions: int = 12
    """r, principal directions per class"""
    neighbours: int = 40
    """k, features that form the Gaussian of a direction; ten where fewer are asked for"""
    disjoint: bool = True
    """beyond the paper: no feature counts for two directions. False: the paper's sets, which share features; where two
    of them share one or two, these can be computed back from what is kept"""
    samples: int = used_later(40)
    """m, features drawn from each Gaussian when old classes are replayed"""
    drift_compensation: bool = used_later(True)
    """beyond the paper: after each task, move the stored moments along with the encoder"""
    compensation_replayed: float = used_later(0.0)
    """what images replayed from memory weigh beside the new ones when the compensation is fitted; distillation holds
    them where they were, so that they move less than the images they stand for"""
    compensation_ridge: float = used_later(0.1)
    """pull of the compensation towards the identity, as a share of the features' mean eigenvalue"""

    def __post_init__(self) -> None:
        _require(self.directions >= 1, self, "directions", "at least 1")
        _require(self.neighbours >= 2, self, "neighbours", "at least 2 (the mean of one is that feature itself)")
        _require(self.samples >= 1, self, "samples", "at least 1")
        replayed, ridge = self.compensation_replayed, self.compensation_ridge
        _require(_finite(replayed) and replayed >= 0, self, "compensation_replayed", "at least 0")
        _require(_finite(ridge) and ridge > 0, self, "compensation_ridge", "above 0")


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
    """gaussian: how much of the covariance is the mean over all classes, from 0 (QDA) to 1 (LDA)"""
    shrinkage: float = 0.2
    """gaussian: how much of the covariance is the same in all directions, above 0 and up to 1"""
    mirror: bool = False
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


METHODS: dict[str, type["MethodConfig"]] = {}
"""Settings of every known method by its name; a subclass of `MethodConfig` enters itself."""


@dataclass(frozen=True)
class MethodConfig:
    """Settings of a method. A subclass adds its own, and has a `name` by which recipes choose it."""

    name: ClassVar[str] = ""

    network: NetworkConfig = field(default_factory=NetworkConfig)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            METHODS[cls.name] = cls


@dataclass(frozen=True)
class FrozenConfig(MethodConfig):
    """The game on the first task; afterwards the encoder stays as it is and classes are only remembered."""

    name: ClassVar[str] = "frozen"

    game: GameConfig = field(default_factory=GameConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    classifier: ClassifierConfig = field(default_factory=ClassifierConfig)
    first: GameStageConfig = field(default_factory=GameStageConfig)
    """the first task"""

    def __post_init__(self) -> None:
        if self.first.batch == "rule":
            raise ConfigError('Expected first.batch to be a number but got "rule": in a first task nothing is old.')
        components, d = self.classifier.components, self.network.feature_dim
        if components is not None and components >= d:
            raise ConfigError(
                f"Expected classifier.components below network.feature_dim ({d}) but got {components}: "
                "a subspace that is the whole space tells no class from another."
            )


@dataclass(frozen=True)
class ICTRLConfig(FrozenConfig):
    """i-CTRL: the game on every task, against replayed memory in the later ones."""

    name: ClassVar[str] = "ictrl"

    later: GameStageConfig = used_later(
        GameStageConfig(batch="rule", weights=WeightsConfig(lambda_new=3.0, distill_new=5.0, distill_replayed=20.0))
    )
    """every later task"""


# The stream and the run


@dataclass(frozen=True)
class StreamConfig:
    """The images, and how their classes arrive."""

    dataset: str = "digits"
    """a name that `ictrl data list` lists; folder, npz and hub are for data of your own choice"""
    root: str | None = None
    """folder that holds the dataset's files, by default where downloads go; your own folder or .npz file"""
    test_share: float = 0.2
    """share of each class held out as test images where the data has no test part of its own (folder, npz, hub)"""
    cache: Literal["auto", "always", "never"] = "auto"
    """decode pictures (folder, hub) once into a file and read images from there: always, never, or where they would
    take more than a quarter of this machine's memory. It changes no result"""
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
    """at most so many training and so many test images per class, for a quick try"""
    validation: float = 0.0
    """share of each class's training images that takes the place of the test images: to choose settings by"""

    def __post_init__(self) -> None:
        _require(0 < self.test_share < 1, self, "test_share", "above 0 and below 1")
        _require(self.cache in ("auto", "always", "never"), self, "cache", '"auto", "always" or "never"')
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
        fewest = "at least 2, which is the fewest a class needs,"
        _require(self.limit is None or self.limit >= 2, self, "limit", fewest)


@dataclass(frozen=True)
class CheckpointConfig:
    """How often a run can be resumed from, besides the end of each task, and what is kept. It changes no result."""

    every_epochs: int = 0
    """write a checkpoint after so many epochs of a task; 0 for never"""
    every_minutes: float = 10.0
    """write a checkpoint after so many minutes of a task; 0 for never"""
    every_task: bool = False
    """keep the learner after every task, to be measured later; otherwise the two newest"""

    def __post_init__(self) -> None:
        _require(self.every_epochs >= 0, self, "every_epochs", "at least 0")
        _require(_finite(self.every_minutes) and self.every_minutes >= 0, self, "every_minutes", "at least 0")


@dataclass(frozen=True)
class RunConfig:
    """One run of a method on a stream."""

    seed: int = 0
    """of initial weights, shuffles and memory samples"""
    device: str = "auto"
    """cpu, cuda, cuda:1 …; auto takes a GPU where there is one"""
    keep_pictures: int = 0
    """test images per class, and their reconstructions after each task, to put into the run folder and its report, by
    methods that draw; 0: no picture of yours. It changes no result"""
    wait_minutes: float = 10.0
    """of several processes: how long they wait for each other before the run is given up. It changes no result"""
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)

    def __post_init__(self) -> None:
        _require(0 <= self.seed < 2**63, self, "seed", "from 0 to 2^63 − 1")
        _require(self.keep_pictures >= 0, self, "keep_pictures", "at least 0")
        _require(_finite(self.wait_minutes) and self.wait_minutes > 0, self, "wait_minutes", "above 0")


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a run: a method, a stream and the run itself."""

    name: str = "custom"
    """what results and run folders are called"""
    description: str = ""
    """one line on what this recipe shows"""
    method: MethodConfig = field(default_factory=ICTRLConfig)
    stream: StreamConfig = field(default_factory=StreamConfig)
    run: RunConfig = field(default_factory=RunConfig)
