"""Learn image classes one task after another, without keeping an old image."""

from ictrl import startup as startup  # first, before anything heavy is imported
from ictrl.config import (
    AugmentationConfig,
    CheckpointConfig,
    ClassifierConfig,
    FrozenConfig,
    GameConfig,
    GameStageConfig,
    ICTRLConfig,
    MemoryConfig,
    MethodConfig,
    NetworkConfig,
    Recipe,
    RunConfig,
    StageConfig,
    StreamConfig,
    WeightsConfig,
)
from ictrl.data import Dataset, Task, load_dataset, split_tasks, tasks_from_arrays
from ictrl.deploy.export import export_onnx
from ictrl.errors import ConfigError, InputError, NonFiniteError
from ictrl.experiment.results import Results
from ictrl.experiment.run import evaluate, resume, run
from ictrl.memory.recognition import Recognition
from ictrl.memory.store import ClassMemory, Memory
from ictrl.methods.base import Learner, create_learner, load_learner
from ictrl.methods.ictrl import ICTRL, Review
from ictrl.methods.wide import Wide
from ictrl.methods.wide_ictrl import WideICTRL
from ictrl.recipes.reader import load_recipe, recipe_names
from ictrl.recipes.tables import recipe_with
from ictrl.training.loop import EpochReport
from ictrl.training.state import TrainingState

__version__ = "0.2.0"

__all__ = [
    # learning
    "Wide",
    "WideICTRL",
    "ICTRL",
    "Learner",
    "create_learner",
    "load_learner",
    "export_onnx",
    "EpochReport",
    "TrainingState",
    "Review",
    "Recognition",
    "Memory",
    "ClassMemory",
    # settings
    "Recipe",
    "load_recipe",
    "recipe_names",
    "recipe_with",
    "MethodConfig",
    "ICTRLConfig",
    "FrozenConfig",
    "NetworkConfig",
    "GameConfig",
    "StageConfig",
    "GameStageConfig",
    "AugmentationConfig",
    "WeightsConfig",
    "MemoryConfig",
    "ClassifierConfig",
    "StreamConfig",
    "RunConfig",
    "CheckpointConfig",
    # data
    "Dataset",
    "Task",
    "load_dataset",
    "split_tasks",
    "tasks_from_arrays",
    # experiments
    "run",
    "resume",
    "evaluate",
    "Results",
    # errors
    "ConfigError",
    "InputError",
    "NonFiniteError",
]
