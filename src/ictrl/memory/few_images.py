"""How many images must stand behind a number that is kept of a class.

Mean and covariance of n features are n features up to a rotation of n − 1 dimensions, which has (n − 1)(n − 2)/2
degrees of freedom. Features of unit length give n equations for it. So up to four such features can be computed from
their mean and covariance, and two of any length; of five there are infinitely many solutions, and ten leave 36 degrees
of freedom to 10 equations. Ten it is, for every method that keeps statistics of a class (`experiments/privacy.py`
measures the attack).
"""

from collections.abc import Mapping
from types import MappingProxyType

from torch import Tensor

from ictrl.errors import InputError
from ictrl.shapes import Int

LEAST = 10


def check_enough(y: Int[Tensor, " n"], names: Mapping[int, str] = MappingProxyType({})) -> None:
    """Refuse classes of fewer than ten images, by name where they have one."""
    labels, counts = y.unique(return_counts=True)
    few = [(int(label), int(count)) for label, count in zip(labels, counts) if count < LEAST]
    if few:
        label, count = few[0]
        name = names.get(label, str(label))
        called = f"{name!r}" if name == str(label) else f"{name!r} (label {label})"
        more = f", and too few of {len(few) - 1} more" if len(few) > 1 else ""
        raise InputError(
            f"Expected at least {LEAST} training images of each class but got {count} of class {called}{more}: from "
            "what is kept of fewer, single images' features could be computed. Add images, or leave the class out."
        )
