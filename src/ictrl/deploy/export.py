"""A learner as an ONNX graph: resizing, pixel scaling, encoder and classifier, for any runtime that reads ONNX.

    images         uint8 (batch, channels, height, width): any number of pictures of any one size
    labels         int64 (batch,): the labels that were learned
    scores         float32 (batch, classes): columns as in `classes_`, the largest for the label given
    probabilities  float32 (batch, classes), calibrated; of `wide`, `wide-ictrl` and `wide-gan` alone

What `predict` does is traced, on the CPU and in float32 whatever the learner works in, so that there is one definition
of it and no GPU kernel in the graph. Decoding a file, turning it upright and making colours grey is left to the caller.
"""

import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ictrl.deploy.picture_graph import OPSET, resizing_graph
from ictrl.errors import InputError
from ictrl.files import write_atomically
from ictrl.methods.base import Learner
from ictrl.methods.capabilities import Probabilities
from ictrl.methods.inference import load_parts, parts_of
from ictrl.methods.storage import Stored
from ictrl.methods.threads import copied, reads
from ictrl.recipes.tables import recipe_with

INSTALL = "pip install 'ictrl[onnx]'"


def export_onnx(learner: Learner[Any], path: str | Path, class_names: Mapping[int, str] | None = None) -> None:
    """Write a learner as an ONNX file that takes pictures of any size and gives labels, scores and probabilities.

    Class names go into the file's metadata, by label. It needs the extra `onnx`.
    """
    from ictrl import __version__

    onnx = _onnx()
    plain = _plain(learner)
    network, classes = plain.recipe.method.network, plain.classes_.tolist()
    example = torch.zeros(2, network.channels, network.image_size, network.image_size, dtype=torch.uint8)
    plain.scores(example)  # so that what is computed once is not in the graph
    outputs = ["scores", "labels", *["probabilities"] * isinstance(plain, Probabilities)]
    traced = _Traced(plain.scorer(), torch.tensor(classes), probable=len(outputs) > 2)
    try:
        with _quiet():
            # by itself the exporter would fall back on a graph for two pictures, where any number cannot be traced
            any_number = ({0: torch.export.Dim("batch")},)
            exported = torch.export.export(traced.eval(), (example,), dynamic_shapes=any_number, strict=False)
            names: dict[str, Any] = {"input_names": ["pixels"], "output_names": outputs}
            program = torch.onnx.export(exported, dynamo=True, verbose=False, opset_version=OPSET, **names)
    except Exception as error:  # whatever goes wrong within the exporter, in a message of many lines
        cause = (" ".join(str(error.__cause__ or error).split()) or type(error).__name__)[:200]
        raise InputError(
            f"Expected a learner whose scores can be traced but {plain.recipe.method.name}'s cannot: {cause}"
        ) from None
    assert program is not None
    network_graph, resizing = program.model_proto, resizing_graph(network.channels, network.image_size)
    network_graph.ir_version = resizing.ir_version
    whole = onnx.compose.merge_models(
        resizing, network_graph, io_map=[("pixels", "pixels")], prefix1="", prefix2="", producer_name="ictrl"
    )
    given = class_names or {}
    named = {str(label): str(given.get(label, label)) for label in classes}
    about = {
        "classes": json.dumps(classes),
        "class_names": json.dumps(named, ensure_ascii=False),
        "method": plain.recipe.method.name,
        "recipe": plain.recipe.name,
        "ictrl": __version__,
    }
    onnx.helper.set_model_props(whole, about)
    onnx.checker.check_model(whole, full_check=True)
    write_atomically(Path(path), whole.SerializeToString())


class _Traced(nn.Module):
    def __init__(self, scores: Callable[[Tensor], Tensor], classes: Tensor, probable: bool) -> None:
        super().__init__()
        self.scores, self.classes, self.probable = scores, classes, probable

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        scores = self.scores(pixels)
        labels = self.classes[scores.argmax(1)]
        return (scores, labels, scores.exp()) if self.probable else (scores, labels)


@reads
def _plain(learner: Learner[Any]) -> Learner[Any]:
    """A copy of the learner that predicts on the CPU in float32."""
    learner._check_learned("export_onnx")
    settings = learner.recipe.method
    game = {"game": {"precision": "float32"}} if hasattr(settings, "game") else {}
    plain = {"precision": "float32"} if hasattr(settings, "precision") else game
    recipe = recipe_with(learner.recipe, {"method": plain})
    twin = copied(learner)
    twin.device, twin.recipe, twin.labels = torch.device("cpu"), recipe, []
    twin._state = twin.build(torch.Generator().manual_seed(learner.seed))
    twin.resize(len(learner.labels))
    parts, tensors = parts_of(learner, inference_only=True, decoder=False)
    on_cpu = {name: tensor.cpu() for name, tensor in tensors.items()}
    load_parts(twin, Stored(recipe, learner.seed, learner.labels, "cpu", on_cpu, parts=parts))
    return twin


def _onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.compose
        import onnx.helper
        import onnxscript  # noqa: F401 - which torch.onnx needs
    except ImportError as error:
        raise InputError(
            f"Expected the packages that write ONNX but {error.name} is not installed: {INSTALL}."
        ) from None
    return onnx


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter speaks of packages and functions of its own that no caller can do anything about."""
    logs = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [log.level for log in logs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for log in logs:
                log.setLevel(logging.ERROR)
            yield
        finally:
            for log, level in zip(logs, levels):
                log.setLevel(level)
