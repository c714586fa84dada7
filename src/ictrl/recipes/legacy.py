"""Names of earlier versions: what a setting, a recipe or a result was called, and what it is called now.

Run folders, learners and published results of version 0.1 are read by way of these tables; recipe files of a user's own
are refused with the new name of each old one, and `ictrl migrate` rewrites them. No figure is changed.
"""

from collections.abc import Iterator
from typing import Any

SETTINGS: dict[str, tuple[str, ...]] = {
    "seed": ("run.seed",),
    "device": ("run.device",),
    "checkpoint.every_epochs": ("run.checkpoint.every_epochs",),
    "checkpoint.every_minutes": ("run.checkpoint.every_minutes",),
    "network.image_size": ("method.network.image_size",),
    "network.channels": ("method.network.channels",),
    "network.width": ("method.network.width",),
    "network.feature_dim": ("method.network.feature_dim",),
    "objective.lambda_new": ("method.later.weights.lambda_new",),
    "objective.lambda_first": ("method.first.weights.lambda_new",),
    "objective.gamma_old": ("method.later.weights.gamma_old",),
    "objective.eps_sq": ("method.game.eps_sq",),
    "anchors.new": ("method.later.weights.distill_new",),
    "anchors.replayed": ("method.later.weights.distill_replayed",),
    "anchors.loop": ("method.later.weights.loop",),
    "anchors.redrawn": ("method.later.weights.redrawn",),
    "memory.directions": ("method.memory.directions",),
    "memory.neighbours": ("method.memory.neighbours",),
    "memory.samples": ("method.memory.samples",),
    "memory.transport": ("method.memory.drift_compensation",),
    "memory.transport_replayed": ("method.memory.compensation_replayed",),
    "memory.transport_ridge": ("method.memory.compensation_ridge",),
    "classifier.kind": ("method.classifier.kind",),
    "classifier.components": ("method.classifier.components",),
    "classifier.energy": ("method.classifier.energy",),
    "classifier.pooled": ("method.classifier.pooled",),
    "classifier.shrinkage": ("method.classifier.shrinkage",),
    "classifier.mirrored": ("method.classifier.mirror",),
    "game.epochs": ("method.later.epochs",),
    "game.first_epochs": ("method.first.epochs",),
    "game.batch": ("method.later.batch",),
    "game.first_batch": ("method.first.batch",),
    "game.learning_rate": ("method.first.learning_rate", "method.later.learning_rate"),
    "game.beta1": ("method.game.beta1",),
    "game.beta2": ("method.game.beta2",),
    "game.precision": ("method.game.precision",),
    "game.replay": ("method.game.replay",),
    "game.resample": ("method.game.resample",),
    "game.flips": ("method.first.augmentation.mirror", "method.later.augmentation.mirror"),
    "game.shifts": ("method.first.augmentation.shifts", "method.later.augmentation.shifts"),
    "game.first_turns": ("method.first.augmentation.rotations",),
    "game.averaged": ("method.first.ema", "method.later.ema"),
    "game.schedule": ("method.first.schedule", "method.later.schedule"),
    "game.optimiser": ("method.game.optimiser",),
    "game.warmup": ("method.later.warmup",),
    "data.name": ("stream.dataset",),
    **{
        f"data.{name}": (f"stream.{name}",)
        for name in (
            "root", "test_share", "hub_name", "hub_configuration", "hub_image", "hub_label", "tasks", "task_sizes",
            "class_order", "class_order_seed", "subset", "subset_seed", "halved_tasks", "halved_share", "limit",
            "validation",
        )
    },
}  # fmt: skip
"""Where each setting of version 0.1 is now; one that held for all tasks is now in both stages."""

RECIPES = {
    "digits": "ictrl-digits",
    "digits-paper": "paper-digits",
    "pictures": "ictrl-pictures",
    "best-cifar10-5-wide": "ictrl-cifar10-5-large",
    **{
        f"best-{stream}": f"ictrl-{stream}"
        for stream in ("mnist-5", "mnist-10", "cifar10-5", "cifar10-10", "cifar100-5", "cifar100-10", "cifar100-20")
    },
}
"""What a recipe of version 0.1 is called now; some of the old names have been given to other recipes."""

# what was done before a setting existed, where that is not today's default
BEFORE = {"classifier.kind": "subspace", "game.averaged": 0.0, "method.memory.disjoint": False}
BEFORE_WITH_TRANSPORT = {"memory.transport_replayed": 1.0}

# what every run folder of version 0.1 names
WHOLE = {"name", "description", "seed", "device", "network", "memory", "classifier", "game", "data", "checkpoint"}

RESULTS = {"floor": "untrained", "memory_bytes": "kept_bytes"}
"""Entries of `results.json` that are called otherwise now."""


def flat(table: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting of nested tables under its dotted name."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def put(table: dict[str, Any], path: str, value: Any) -> None:
    """Set a dotted name in nested tables."""
    *sections, key = path.split(".")
    for section in sections:
        table = table.setdefault(section, {})
    table[key] = value


def renamed(table: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """The old names that a recipe's table has, each with its new ones."""
    return {name: SETTINGS[name] for name, _ in flat(table) if name in SETTINGS}


def translated(table: dict[str, Any]) -> dict[str, Any]:
    """A recipe's table under today's names; settings that have today's name already stay."""
    new: dict[str, Any] = {}
    for name, value in flat(table):
        for target in SETTINGS.get(name, (name,)):
            put(new, target, value)
    return new


def whole_recipe(table: dict[str, Any]) -> dict[str, Any]:
    """The recipe that a run folder, a learner or a result of any version holds, every setting spelled out.

    Of settings that did not exist when it was written, what was done then.
    """
    return _with_shared(translated({**dict(flat(table)), **unwritten(table)}) if renamed(table) else table)


def _with_shared(table: dict[str, Any]) -> dict[str, Any]:
    """Before directions had disjoint sets, they shared features, as the paper's do."""
    method = table.get("method")
    if not isinstance(method, dict) or "disjoint" in method.get("memory", {"disjoint"}):
        return table
    return {**table, "method": {**method, "memory": {**method["memory"], "disjoint": False}}}


def unwritten(table: dict[str, Any]) -> dict[str, Any]:
    """What was done before some settings existed, for those that a recipe of version 0.1 does not have."""
    written = dict(flat(table))
    done = {**BEFORE, **(BEFORE_WITH_TRANSPORT if written.get("memory.transport") else {})}
    return {name: value for name, value in done.items() if name not in written}


def is_whole(table: dict[str, Any]) -> bool:
    """Whether a recipe of version 0.1 was written by a run, with every setting there was, and not by hand."""
    return table.keys() >= WHOLE


def _has_matrix(scores: Any) -> bool:
    """Whether these are scores with a whole confusion matrix, as they had it before counts of 0 were left out."""
    rows = scores.get("confusion") if isinstance(scores, dict) else None
    return isinstance(rows, list) and any(isinstance(row, list) for row in rows)


def sparse_confusion(rows: Any) -> Any:
    """Confusion as it is kept today, a table per class; ValueError where a matrix has rows of another length.

    >>> sparse_confusion([[3, 1], [0, 36]])
    [{'0': 3, '1': 1}, {'1': 36}]
    """
    if not isinstance(rows, list):
        return rows
    if any(isinstance(row, list) and len(row) != len(rows) for row in rows):
        raise ValueError("confusion: expected as many counts in each row as there are rows")
    return [
        {str(place): count for place, count in enumerate(row) if count != 0} if isinstance(row, list) else row
        for row in rows
    ]


def results_table(table: dict[str, Any]) -> dict[str, Any]:
    """The contents of a `results.json` of any version under today's names."""
    if before := {name: scores for name, scores in table.items() if _has_matrix(scores)}:
        table = table | {
            name: scores | {"confusion": sparse_confusion(scores["confusion"])} for name, scores in before.items()
        }
    if "kept_bytes" in table:
        whole = whole_recipe(table.get("recipe", {}))
        return table if whole is table.get("recipe") or not whole else {**table, "recipe": whole}
    new = {RESULTS.get(key, key): value for key, value in table.items()}
    new["recipe"] = whole_recipe(new["recipe"])
    if "floor" in new.get("seconds", {}):
        new["seconds"] = {"floors" if key == "floor" else key: value for key, value in new["seconds"].items()}
    new.setdefault("measured_on", "test images")
    return new
