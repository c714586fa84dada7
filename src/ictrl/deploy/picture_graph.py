"""The resizing of `ictrl.data.resize` as an ONNX graph, which an exported learner begins with.

Of pictures (n, channels, height, width) it takes the middle square and resizes it with a triangle filter that widens
as pictures shrink, and rounds to whole numbers: what training does. The filter is written out as two products of
matrices, W X Wᵀ with Wᵢⱼ = max(0, 1 − |j + ½ − (i + ½) s| / max(s, 1)), rows divided by their sums and s the side
before over the side after: ONNX's own Resize treats the edges otherwise. A runtime adds up products in another order,
so that a value half-way between two whole numbers may be rounded the other way. Where 32×32 is asked for, pictures of
28×28 get a border of two black pixels, and pictures of the right size stay as they are, both exactly.
"""

from typing import Any

from ictrl.data.resize import MNIST_SIDE, PADDED_SIDE

OPSET = 18

BORDER = f"""
    given = Shape <start = 2> (images)
    mnist = Constant <value_ints = [{MNIST_SIDE}, {MNIST_SIDE}]> ()
    equal = Equal (given, mnist)
    equals = Cast <to = 7> (equal)
    small = ReduceMin <keepdims = 1> (equals)
    b = Constant <value_ints = [{(PADDED_SIDE - MNIST_SIDE) // 2}]> ()
    border = Mul (small, b)
    zero = Constant <value_ints = [0]> ()
    pads = Concat <axis = 0> (zero, zero, border, border, zero, zero, border, border)
    bordered = Pad (images, pads)"""

GRAPH = """
<ir_version: 10, opset_import: ["" : {opset}]>
fit (uint8[batch, {channels}, height, width] images) => (uint8[batch, {channels}, {side}, {side}] pixels)
{{{border}
    size = Shape <start = 2> (bordered)
    square = ReduceMin <keepdims = 1> (size)
    rest = Sub (size, square)
    two = Constant <value_ints = [2]> ()
    begin = Div (rest, two)
    end = Add (begin, square)
    axes = Constant <value_ints = [2, 3]> ()
    cut = Slice (bordered, begin, end, axes)
    floats = Cast <to = 1> (cut)

    wide = Cast <to = 1> (square)
    side = Constant <value_float = {side}.0> ()
    scale = Div (wide, side)
    one = Constant <value_float = 1.0> ()
    support = Max (scale, one)
    half = Constant <value_float = 0.5> ()
    nought = Constant <value_float = 0.0> ()
    middles = Constant <value_floats = [{middles}]> ()
    centres = Mul (middles, scale)
    column = Constant <value_ints = [{side}, 1]> ()
    centred = Reshape (centres, column)
    end_of_row = Squeeze (wide)
    places = Range (nought, end_of_row, one)
    pixel_middles = Add (places, half)
    apart = Sub (pixel_middles, centred)
    distance = Abs (apart)
    relative = Div (distance, support)
    fall = Sub (one, relative)
    triangle = Relu (fall)
    along = Constant <value_ints = [1]> ()
    sums = ReduceSum <keepdims = 1> (triangle, along)
    weights = Div (triangle, sums)
    across = Transpose <perm = [1, 0]> (weights)
    lower = MatMul (weights, floats)
    resized = MatMul (lower, across)

    rounded = Round (resized)
    black = Constant <value_float = 0.0> ()
    white = Constant <value_float = 255.0> ()
    clipped = Clip (rounded, black, white)
    pixels = Cast <to = 2> (clipped)
}}
"""


def resizing_graph(channels: int, side: int) -> Any:
    """An ONNX model from pictures of any size to squares of that side."""
    import onnx.parser

    border = BORDER if side == PADDED_SIDE else "\n    bordered = Identity (images)"
    middles = ", ".join(f"{i + 0.5}" for i in range(side))
    text = GRAPH.format(opset=OPSET, channels=channels, side=side, border=border, middles=middles)
    return onnx.parser.parse_model(text)
