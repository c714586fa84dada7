"""derpp: dark experience replay (DER++). Beside an old image lie the logits that the network once had for it.

    loss = CE(W f(x), y) + α ‖W f(x′) − ℓ′‖² + β CE(W f(x″), y″),

x′ with its logits ℓ′ and x″ with its label y″ two draws from a reservoir. Logits remember more than a label: how alike
the classes looked at the time (Buzzega et al., *Dark Experience for General Continual Learning*, NeurIPS 2020). Where a
class was not known when an image was stored, its logit is left out; the authors have a row for every class from the
start (`head_rows`), whose stored logits hold later classes down on old images, and are worth several points.

Settings: the paper's for CIFAR-10 with 500 images: SGD at 0.03, α 0.2, β 0.5, 50 epochs of each task, 32 new images and
twice 32 old ones in a step, crops and mirror.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ictrl.errors import ConfigError
from ictrl.memory.buffer import EMPTY, ReservoirBuffer
from ictrl.methods.rehearsal import RehearsalConfig, RehearsalLearner
from ictrl.methods.supervised import Seen


@dataclass(frozen=True)
class DERPPConfig(RehearsalConfig):
    """Logits and labels of replayed images."""

    name: ClassVar[str] = "derpp"

    alpha: float = 0.2
    """weight of the distance to stored logits; the paper has 0.1 with 200 images"""
    beta: float = 0.5
    """weight of the cross-entropy on replayed images; 0 is DER"""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("alpha", "beta"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ConfigError(f"Expected {name} to be at least 0 but got {getattr(self, name)}.")


class DERPP(RehearsalLearner):
    """Dark experience replay."""

    settings_type = DERPPConfig
    keeps = "some images and their logits"
    keeps_logits = True

    def loss(self, seen: Seen, working: Mapping[str, nn.Module]) -> dict[str, Tensor]:
        settings, augmentation = self.settings, self.settings.stage.augmentation
        # three passes, as the authors have them: BatchNorm sees new and old images apart
        logits = self.logits(seen.X)
        self._logits = logits.detach()
        terms = {"cross_entropy": cross_entropy(logits, seen.rows)}
        if settings.alpha:
            old = self.replayed(seen, working)
            assert old.logits is not None
            apart = (self.logits(self.shown(old.images, augmentation)) - old.logits) * old.known
            terms["logits"] = settings.alpha * apart.square().sum() / old.known.sum().clamp(min=1)
        if settings.beta:
            old = self.replayed(seen, working)
            each = cross_entropy(
                self.logits(self.shown(old.images, augmentation)), old.rows, ignore_index=EMPTY, reduction="sum"
            )
            terms["replayed"] = settings.beta * each / old.there.sum().clamp(min=1)
        return terms

    def after_step(self, seen: Seen, working: Mapping[str, nn.Module]) -> None:
        buffer = working["buffer"]
        assert isinstance(buffer, ReservoirBuffer)
        # the logits of before the step, as the authors have it
        buffer.add(seen.pixels, seen.rows, self._state.generator, self._logits)
