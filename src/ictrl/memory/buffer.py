"""Images that a method keeps of old classes: which ones, how many bytes, and how they are drawn again.

*Exemplars* are what remains after a task: images and the rows of their classes. Which ones they are is the question:

    reservoir    of all images seen so far every one is kept with the same chance, whatever comes (Vitter, 1985)
    balanced     equally many of each class
    herding      those whose mean of features is nearest to the mean of all, one after another (Welling, 2009)

A `ReservoirBuffer` changes with every step of a task; its shapes do not, so that a step can be recorded on a GPU.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ictrl.shapes import Bool, Float, Int, UInt8

EMPTY = -1  # row of a place that holds no image


class Exemplars(NamedTuple):
    """Images that are kept, and the rows of their classes in the head."""

    images: UInt8[Tensor, "n c h w"]
    rows: Int[Tensor, " n"]

    def joined(self, other: "Exemplars") -> "Exemplars":
        return Exemplars(*(torch.cat(pair) for pair in zip(self, other)))

    def at(self, places: Int[Tensor, " m"]) -> "Exemplars":
        return Exemplars(self.images[places.to(self.images.device)], self.rows[places.to(self.rows.device)])

    def without(self, row: int) -> "Exemplars":
        """Less the images of one class; those behind it move up a row."""
        rows = self.rows[self.rows != row]
        images = self.images[(self.rows != row).to(self.images.device)]
        return Exemplars(images, rows - (rows > row).to(rows.dtype))


def exemplars_from(tensors: dict[str, Tensor], classes: int) -> Exemplars:
    """From tensors called images and rows; KeyError or ValueError if they are none of so many classes."""
    images, rows = tensors["images"], tensors["rows"]
    if images.dtype != torch.uint8 or images.ndim != 4 or rows.shape != (len(images),):
        raise ValueError(f"images {images.dtype} {tuple(images.shape)} with rows {tuple(rows.shape)}")
    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < classes:
        raise ValueError(f"rows from {int(rows.min())} to {int(rows.max())} for {classes} classes")
    return Exemplars(images, rows)


class Replayed(NamedTuple):
    """What a step draws from a buffer."""

    images: UInt8[Tensor, "n c h w"]
    rows: Int[Tensor, " n"]
    """EMPTY where the buffer had too few"""
    logits: Float[Tensor, "n k"] | None
    """as they were when the image was stored, and 0 for classes that were not known then"""
    widths: Int[Tensor, " n"]
    """classes that were known when the image was stored"""

    @property
    def known(self) -> Bool[Tensor, "n k"]:
        """Which logits were stored with an image."""
        assert self.logits is not None
        classes = torch.arange(self.logits.shape[1], device=self.rows.device)
        return classes < self.widths[:, None]

    @property
    def there(self) -> Bool[Tensor, " n"]:
        return self.rows != EMPTY

    def filled(self, images: UInt8[Tensor, "m c h w"]) -> "Replayed":
        """Where nothing was drawn, one of these images, so that BatchNorm sees no black ones; its row stays EMPTY."""
        others = images[torch.arange(len(self.rows), device=images.device) % len(images)]
        return self._replace(images=torch.where(self.there[:, None, None, None], self.images, others))


class ReservoirBuffer(nn.Module):
    """At most `capacity` images, a uniform sample of all that were added, and a row and perhaps logits beside each."""

    images: Tensor
    rows: Tensor
    seen: Tensor
    logits: Tensor | None
    widths: Tensor

    def __init__(self, capacity: int, shape: tuple[int, ...], classes: int = 0) -> None:
        """With `classes`, so many logits are kept beside each image."""
        super().__init__()
        self.capacity = capacity
        # one place more than there are: whatever is not kept goes there, and nothing is ever read from it
        self.register_buffer("images", torch.zeros(capacity + 1, *shape, dtype=torch.uint8))
        self.register_buffer("rows", torch.full((capacity + 1,), EMPTY))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.register_buffer("logits", torch.zeros(capacity + 1, classes) if classes else None)
        self.register_buffer("widths", torch.zeros(capacity + 1, dtype=torch.long))

    def add(
        self,
        images: UInt8[Tensor, "n c h w"],
        rows: Int[Tensor, " n"],
        generator: torch.Generator,
        logits: Float[Tensor, "n k"] | None = None,
    ) -> None:
        """Image t of all takes place t while there is room, and then place ⌊ut⌋ of a uniform u, if there is such."""
        n, device = len(rows), rows.device
        t = self.seen + torch.arange(n, device=device)
        u = torch.rand(n, generator=generator, device=device, dtype=torch.float64)
        places = torch.where(t < self.capacity, t, (u * (t + 1)).long()).clamp(max=self.capacity)
        overwritten = (places[:, None] == places).triu(1).any(1)  # by a later one of this very batch
        places = torch.where(overwritten, self.capacity, places)
        self.images[places] = images
        self.rows[places] = rows
        if self.logits is not None and logits is not None:
            self.logits[places] = logits.detach().float()
            self.widths[places] = torch.full_like(places, logits.shape[1])
        self.rows[-1].fill_(EMPTY)  # assigning a number copies it from the host, which cannot be recorded
        self.widths[-1].zero_()
        self.seen += n

    def draw(self, n: int, generator: torch.Generator) -> Replayed:
        """n different images at random; fewer are there while the buffer holds fewer."""
        order = torch.rand(self.capacity, generator=generator, device=self.rows.device)
        places = (order + (self.rows[:-1] != EMPTY)).topk(min(n, self.capacity)).indices
        logits = None if self.logits is None else self.logits[places]
        return Replayed(self.images[places], self.rows[places], logits, self.widths[places])

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Go on from what `tensors` gave; logits may have become more."""
        n = len(tensors["rows"])
        self.images[:n], self.rows[:n] = tensors["images"], tensors["rows"]
        self.seen.copy_(tensors["seen"])
        if self.logits is not None:
            self.logits[:n, : tensors["logits"].shape[1]] = tensors["logits"]
            self.widths[:n] = tensors["widths"]

    def tensors(self) -> dict[str, Tensor]:
        """All that it holds, without the empty places."""
        n = int((self.rows != EMPTY).sum())  # places fill from the first on
        found = {"images": self.images[:n].clone(), "rows": self.rows[:n].clone(), "seen": self.seen.clone()}
        return (
            found
            if self.logits is None
            else {**found, "logits": self.logits[:n].clone(), "widths": self.widths[:n].clone()}
        )


def reservoir_without(tensors: dict[str, Tensor], row: int) -> dict[str, Tensor]:
    """What a reservoir holds, less the images of one class; logits lose its column.

    A reservoir that is full stays full, so that it goes on as before: places that become free hold images again that
    are there already, and of those seen so far the same share is gone.
    """
    stay = (tensors["rows"] != row).nonzero()[:, 0]
    before, left, seen = len(tensors["rows"]), len(stay), int(tensors["seen"])
    if left and seen > before:
        stay = stay[torch.arange(before, device=stay.device) % left]
    images, rows = Exemplars(tensors["images"], tensors["rows"]).at(stay)
    found = {"images": images, "rows": rows - (rows > row).to(rows.dtype)}
    found["seen"] = torch.full_like(tensors["seen"], round(seen * left / max(before, 1)))
    if "logits" in tensors:
        logits, widths = tensors["logits"][stay], tensors["widths"][stay]
        found["logits"] = torch.cat([logits[:, :row], logits[:, row + 1 :]], 1)
        found["widths"] = widths - (widths > row).to(widths.dtype)
    return found


def balanced(rows: Int[Tensor, " n"], capacity: int) -> dict[int, int]:
    """How many images of each row may be kept: equally many, the first classes one more where that does not come out.

    >>> balanced(torch.tensor([0, 0, 0, 1, 1, 1, 2]), 5)
    {0: 2, 1: 2, 2: 1}
    """
    found = rows.unique().tolist()
    share, more = divmod(capacity, len(found))
    return {row: min(share + (i < more), int((rows == row).sum())) for i, row in enumerate(found)}


def herded(Z: Float[Tensor, "n d"], count: int) -> Int[Tensor, " count"]:
    """Places of features whose mean is nearest to the mean of all, the first ones first (iCaRL, Algorithm 4).

    The k-th is argmin ‖μ − (z + Σ_{i<k} zᵢ)/k‖ over those not yet chosen, so that any beginning of the list is good.
    """
    mean, total = Z.mean(0), torch.zeros_like(Z[0])
    free, chosen = torch.ones(len(Z), dtype=torch.bool, device=Z.device), []
    for k in range(1, min(count, len(Z)) + 1):
        distance = (mean - (Z + total) / k).square().sum(1)
        place = int(torch.where(free, distance, torch.inf).argmin())
        chosen.append(place)
        free[place] = False
        total = total + Z[place]
    return torch.tensor(chosen, dtype=torch.long, device=Z.device)
