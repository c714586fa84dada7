"""Shapes of tensors in signatures, `Float[Tensor, "n d"]`, as jaxtyping has them.

They are for readers, mypy and the tests, which check them at run time. A learner that only has to predict does without:
where jaxtyping is not installed, a shape says nothing and costs nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, Integer, Shaped, UInt8
else:
    try:
        from jaxtyping import Bool, Float, Int, Integer, Shaped, UInt8
    except ImportError:

        class _Plain:
            def __class_getitem__(cls, given: tuple[Any, str]) -> Any:
                """The type of the array, whatever its shape."""
                return given[0]

        Bool = Float = Int = Integer = Shaped = UInt8 = _Plain

__all__ = ["Bool", "Float", "Int", "Integer", "Shaped", "UInt8"]
