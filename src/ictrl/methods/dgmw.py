"""dgmw: dynamic generative memory with weight masks. Each task takes some of the decoder's weights for itself.

The decoder is told which class to draw, as in `mergan`. While a task is learned, every weight w of it is used as
w σ(s e), e learned with it, s rising from 1 / s_max to s_max; and the decoder pays

    λ Σ σ(s e) (1 − m) / Σ (1 − m),      m = 1 where an earlier task has taken the weight,

for weights that it takes anew. Those with e > 0 are the task's in the end. Weights that are taken may be used by later
tasks but are changed no more, so that each class is drawn for ever as it was when its task ended: nothing is distilled
and no copy is made. Kept are one bit per weight and task, and each task's BatchNorm (Ostapenko, Puscas, Klein,
Jähnichen and Nabi, *Learning to Remember: A Synaptic Plasticity Driven Framework for Continual Learning*, CVPR 2019).

The authors' decoder grows with every task by as many weights as it took. Here it does not: `decoder_width` reserves the
room, and a decoder that is full can only combine what it has. Their critic's head is the classifier; here, as in
`mergan`, encoder and head learn from new images and from those that are drawn of old classes.

Settings: decoder and critic learn as WGAN-GP's authors have it; λ and s_max are ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ictrl.errors import ConfigError
from ictrl.methods.adversarial import AdversarialConfig, AdversarialLearner, Replay
from ictrl.methods.checks import check_types
from ictrl.methods.class_drawing import RecognisedDrawing
from ictrl.nets.layers import exact_float32
from ictrl.nets.masked import (
    MaskedDecoder,
    Masks,
    begin_norms,
    maskable,
    norm_numbers,
    of_task,
    packed,
    packed_bytes,
    unpacked,
)
from ictrl.nets.wrappers import to_float
from ictrl.shapes import Bool, Float, Int, UInt8
from ictrl.training.artist import Artist
from ictrl.training.ema import refresh_batchnorm
from ictrl.training.loop import TaskHooks
from ictrl.training.replay import frozen_copy
from ictrl.training.state import TrainingState
from ictrl.training.task import CHUNK

Kept = dict[str, Tensor]
REFRESHED, EACH = 20, 256  # batches, and images in each, that BatchNorm's statistics are taken of in the end


@dataclass(frozen=True)
class DGMwConfig(AdversarialConfig):
    """A decoder whose weights are shared out among tasks."""

    name: ClassVar[str] = "dgmw"

    sparsity: float = 1.0
    """λ, what the decoder pays for weights that no task has taken"""
    hardest: float = 200.0
    """s_max, how hard a mask is in the end"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.sparsity < float("inf"):
            raise ConfigError(f"Expected sparsity to be at least 0 but got {self.sparsity}.")
        if not 1 < self.hardest < float("inf"):
            raise ConfigError(f"Expected hardest to be above 1 but got {self.hardest}.")
        if self.network.feature_dim % 2:
            raise ConfigError(
                f"Expected network.feature_dim to be even but got {self.network.feature_dim}: half of the numbers are "
                "noise and half the class's code."
            )


class DGMw(AdversarialLearner[Kept], RecognisedDrawing[Kept]):
    """Dynamic generative memory, masks of weights."""

    settings_type = DGMwConfig
    keeps = "a bit per weight of the decoder and task"
    conditional = True
    _steps = 1  # of the decoder in the task that is learned
    _taken: Mapping[str, Tensor] | None = None  # by earlier tasks, 1 where a weight is

    @property
    def artist(self) -> Artist:
        networks = self._state.networks
        decoder, masks = networks["decoder"], networks.get("masks")
        if isinstance(masks, Masks):  # while a task is learned
            decoder = MaskedDecoder(decoder, masks, self.settings.hardest, self._steps)
        return Artist(decoder, networks["codes"])

    def artist_of(self, task: int) -> Artist:
        """As it draws the classes of a task, for ever."""
        decoder, codes = self._state.networks["decoder"], self._state.networks["codes"]
        masks = unpacked(self.kept["masks"][task], decoder)
        return Artist(of_task(frozen_copy(decoder), masks, self.kept["norms"][task]), frozen_copy(codes))

    def drawn(self, row: int, n: int, generator: torch.Generator) -> Float[Tensor, "n c h w"]:
        rows, artist = torch.full((n,), row, device=self.device), self.artist_of(int(self.kept["tasks"][row]))
        with exact_float32():
            return artist.of(self.noise(n, generator), rows)

    def redrawn(self, X: UInt8[Tensor, "n c h w"], rows: Int[Tensor, " n"]) -> Float[Tensor, "n c h w"]:
        found, numbers = torch.zeros(X.shape, device=self.device), self.noise(1, torch.Generator(self.device)).shape[1]
        tasks = self.kept["tasks"][rows]
        for task in tasks.unique().tolist():
            artist, mine = self.artist_of(task), (tasks == task).nonzero()[:, 0]
            with exact_float32():
                for part in mine.split(CHUNK):
                    images = to_float(X[part.to(X.device)].to(self.device))
                    found[part] = artist.nearest(images, rows[part], numbers)
        return found

    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> Kept:
        rows, old = self.rows_of(y), len(self.labels)
        # follows from the state at the task's beginning, so that a stopped task finds the same again
        replay = self.replay_of_tasks() if old else None
        self.resize(old + len(y.unique()))
        decoder, generator, batch = self._state.networks["decoder"], self._state.generator, self.settings.drawing.batch
        self._taken = self.taken(decoder)
        self._steps = self.settings.drawing.epochs * -(-len(X) // batch)
        begin_norms(decoder)
        masks = Masks(decoder, generator)
        self._state = TrainingState(
            {**self._state.networks, "masks": masks.eval()}, self._state.optimisers, self._state.generator
        )
        optimiser = self._state.optimisers["decoder"]
        optimiser.add_param_group({**optimiser.param_groups[0], "params": list(masks.parameters())})
        optimiser.register_step_pre_hook(self._leave_taken)
        self.learn_with(X, rows, replay, hooks)
        return self._settled(masks, old, rows)

    def taken(self, decoder: nn.Module) -> dict[str, Bool[Tensor, "..."]]:
        """By any task so far."""
        found = {name: torch.zeros_like(p, dtype=torch.bool) for name, p in maskable(decoder).items()}
        for bits in self.kept.get("masks", ()):
            found = {name: mask | found[name] for name, mask in unpacked(bits, decoder).items()}
        return found

    def _leave_taken(self, *_: Any) -> None:
        """Before each step: no gradient for weights that are taken, and masks a step harder."""
        assert self._taken is not None
        for name, weight in maskable(self._state.networks["decoder"]).items():
            if weight.grad is not None:
                weight.grad.mul_(~self._taken[name])
        masks = self._state.networks["masks"]
        assert isinstance(masks, Masks)
        masks.steps.add_(1)

    def held(self, n: int) -> dict[str, Tensor]:
        """What the decoder pays for weights that it takes anew."""
        masks, settings = self._state.networks["masks"], self.settings
        assert isinstance(masks, Masks)
        assert self._taken is not None
        soft = masks.soft(settings.hardest, self._steps)
        anew = torch.stack([(mask * ~self._taken[name]).sum() for name, mask in soft.items()]).sum()
        free = torch.stack([(~taken).sum() for taken in self._taken.values()]).sum()
        return {"decoder.masks": settings.sparsity * anew / free.clamp(min=1)}

    def mixed(self, X: Float[Tensor, "n c h w"], rows: Int[Tensor, " n"]) -> tuple[Tensor, Tensor]:
        """New images alone: old classes need no more learning."""
        return X, rows

    def replay_of_tasks(self) -> Replay:
        """Old classes, each drawn as its task has it."""
        generator, tasks = self._state.generator, self.kept["tasks"]
        old = [(self.artist_of(task), (tasks == task).nonzero()[:, 0]) for task in range(len(self.kept["masks"]))]

        def replay(n: int) -> tuple[Tensor, Tensor]:
            images, rows = [], []
            with torch.no_grad():
                for artist, members in old:
                    each = -(-n * len(members) // len(tasks))
                    places = torch.randint(len(members), (each,), generator=generator, device=self.device)
                    rows.append(members[places])
                    images.append(artist.of(self.noise(each, generator), rows[-1]))
            return torch.cat(images), torch.cat(rows)

        return replay

    def learn_to_draw(self, X: UInt8[Tensor, "n c h w"], rows: Int[Tensor, " n"], hooks: TaskHooks) -> None:
        """And BatchNorm's statistics of the decoder as the mask, hard now, leaves it."""
        super().learn_to_draw(X, rows, hooks)
        masks, decoder = self._state.networks["masks"], self._state.networks["decoder"]
        assert isinstance(masks, Masks)
        codes, generator = self._state.networks["codes"], self._state.generator
        hardened = of_task(frozen_copy(decoder), masks.hard(), norm_numbers(decoder)).train()
        with torch.no_grad(), exact_float32():
            classes = rows.unique()
            told = [
                classes[torch.randint(len(classes), (EACH,), generator=generator, device=self.device)]
                for _ in range(REFRESHED)
            ]
            refresh_batchnorm(hardened, (torch.cat([self.noise(EACH, generator), codes(part)], 1) for part in told))
            of_norms = [m for m in decoder.modules() if isinstance(m, nn.BatchNorm2d)]
            for mine, other in zip(of_norms, (m for m in hardened.modules() if isinstance(m, nn.BatchNorm2d))):
                mine.load_state_dict(other.state_dict())

    def _settled(self, masks: Masks, old: int, rows: Int[Tensor, " n"]) -> Kept:
        """What is kept with the new task; the networks as they are between tasks."""
        decoder = self._state.networks["decoder"]
        new = {
            "masks": packed(masks.hard())[None],
            "norms": norm_numbers(decoder)[None],
            "tasks": torch.full((len(rows.unique()),), len(self.kept.get("masks", ())), device=self.device),
        }
        self._state = self._beside(
            TrainingState(
                {name: part for name, part in self._state.networks.items() if name in ("encoder", "head")},
                {"network": self._state.optimisers["network"]},
                self._state.generator,
            ),
            {name: part for name, part in self._artists().items() if name != "masks"},
        )
        self._taken = None
        return {name: torch.cat([self.kept[name], part]) if self.kept else part for name, part in new.items()}

    def kept_tensors(self) -> Kept:
        return self.kept

    def kept_from(self, labels: list[int], tensors: Kept) -> Kept:
        if not labels:
            return {}
        check_types(tensors, whole=("tasks",), bits=("masks",))
        decoder, T = self._state.networks["decoder"], len(tensors["masks"])
        expected = {
            "masks": (T, packed_bytes(decoder)),
            "norms": (T, len(norm_numbers(decoder))),
            "tasks": (len(labels),),
        }
        found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        if found != expected or not 0 <= int(tensors["tasks"].min()) <= int(tensors["tasks"].max()) < T:
            raise ValueError(f"what is kept has shapes {found} and not {expected}, or is of other tasks")
        return tensors

    def kept_without(self, row: int) -> Kept:
        """A task goes with its last class; the weights that it took are free again."""
        tasks = torch.cat([self.kept["tasks"][:row], self.kept["tasks"][row + 1 :]])
        stay = tasks.unique()
        return {
            "tasks": torch.searchsorted(stay, tasks),
            **{name: self.kept[name][stay] for name in ("masks", "norms")},
        }
