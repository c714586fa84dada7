"""All kernels by name; importing this needs Triton."""

from ictrl.kernels.image import image_convolution, image_transposed_convolution
from ictrl.kernels.norm import leaky_norm

__all__ = ["image_convolution", "image_transposed_convolution", "leaky_norm"]
