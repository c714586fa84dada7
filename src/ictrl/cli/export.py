"""`ictrl export`: a learner for use elsewhere, as an ONNX graph or as a small file."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from ictrl.cli.learners import open_learner
from ictrl.cli.options import Flag, Learned
from ictrl.cli.output import open_console
from ictrl.errors import InputError
from ictrl.files import make_folder

EXPORT_HELP = """Write a learner for use elsewhere: an ONNX graph, or a small file to predict with.

With -o NAME.onnx the file holds all from a picture's pixels to its label: resizing as in training, scaling, encoder and
classifier. Its input is `images`, uint8 (batch, channels, height, width), any number of pictures of any one size; its
outputs are `labels`, `scores` and, of wide, wide-ictrl and wide-gan, calibrated `probabilities`. Names of classes lie
in its metadata. Any ONNX runtime runs it, without Python or PyTorch. Writing it needs: pip install 'ictrl[onnx]'.

With -o NAME.safetensors it is what `learner.save(path, inference_only=True)` writes: a learner for this library that
predicts exactly as before and cannot go on learning; with --decoder it can also draw.

Examples:
  ictrl export runs/mine -o mine.onnx
  ictrl export runs/mine -o mine.safetensors
  ictrl export runs/digits -o digits.safetensors --decoder
  ictrl predict mine.safetensors holiday/cat.jpg
"""

ExportTo = Annotated[Path, arg(aliases=["-o"], metavar="FILE", help="a .onnx or .safetensors file to write")]


@dataclass(frozen=True)
class ExportCommand:
    """A learner as ONNX, or to predict with."""

    run: Learned
    out: ExportTo
    decoder: Flag = False
    """keep what drawing needs; for .safetensors"""

    def execute(self) -> None:
        """The ending says what is written."""
        ending = self.out.suffix.lower()
        if ending not in (".onnx", ".safetensors"):
            raise InputError(f"Expected --out to end in .onnx or .safetensors but got {self.out}.")
        if self.decoder and ending == ".onnx":
            raise InputError("Expected --decoder with a .safetensors file: an ONNX graph predicts, and does not draw.")
        learner, names = open_learner(self.run, "cpu")
        make_folder(self.out.parent)
        if ending == ".onnx":
            from ictrl.deploy.export import export_onnx

            export_onnx(learner, self.out, names)
        else:
            notes = {"class_names": json.dumps({str(label): name for label, name in names.items()})}
            learner.save(self.out, notes, inference_only=True, decoder=self.decoder)
        about = f"{len(learner.classes_)} classes by {learner.recipe.method.name}"
        open_console().print(f"{self.out}: {about}, {self.out.stat().st_size / 1e6:.2f} MB", soft_wrap=True)
