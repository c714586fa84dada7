"""frozen: the encoder learns the first task by the closed-loop game and never again.

Later classes are only remembered, as moments of their features. With nothing moving nothing drifts, so that what memory
says is exact for ever; what the first task did not teach the encoder, it never learns. A lower bound for every method
that goes on learning.
"""

from torch import Tensor

from ictrl.config import FrozenConfig
from ictrl.memory.few_images import check_enough
from ictrl.memory.store import Memory
from ictrl.methods.closed_loop import ClosedLoopLearner
from ictrl.methods.forgetting import IN_THE_FIRST_WEIGHTS
from ictrl.shapes import Int, UInt8
from ictrl.training.loop import TaskHooks


class Frozen(ClosedLoopLearner):
    """Plays the game on the first task, then only remembers."""

    settings_type = FrozenConfig
    shares_batches = True

    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> Memory:
        check_enough(y)
        if not self.memory:
            self.play(X, y, self.memory, self.settings.first, hooks)
        return self.memory.with_classes(self.formed(self.encode(X), y))

    def what_remains(self) -> list[str]:
        return [IN_THE_FIRST_WEIGHTS]
