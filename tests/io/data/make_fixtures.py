"""Writes the *.safetensors files of this folder with the format's own implementation; see README.md."""

import pathlib
import struct
import sys

import numpy
import safetensors
import safetensors.numpy

folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
buffers = []  # TensorSpec does not keep the bytes it points to


def raw(dtype, shape, data):
    buffers.append(numpy.frombuffer(data, "u1"))
    return safetensors.TensorSpec(dtype=dtype, shape=shape, data_ptr=buffers[-1].ctypes.data, data_len=len(data))


# Each dtype: the numbers 0, 1, 2, ... (for bool: their parity) in shape [2, 3].
numbers = numpy.arange(6).reshape(2, 3)
bfloat16 = b"".join(struct.pack("<f", value)[2:] for value in numbers.flat)
tensors = {
    "bool": raw("bool", [2, 3], (numbers % 2).astype("u1").tobytes()),
    "uint8": raw("uint8", [2, 3], numbers.astype("u1").tobytes()),
    "int32": raw("int32", [2, 3], numbers.astype("<i4").tobytes()),
    "int64": raw("int64", [2, 3], numbers.astype("<i8").tobytes()),
    "float16": raw("float16", [2, 3], numbers.astype("<f2").tobytes()),
    "bfloat16": raw("bfloat16", [2, 3], bfloat16),  # numpy has none
    "float32": raw("float32", [2, 3], numbers.astype("<f4").tobytes()),
    "float64": raw("float64", [2, 3], numbers.astype("<f8").tobytes()),
}
safetensors.serialize_file(tensors, folder / "dtypes.safetensors", None)

safetensors.numpy.save_file(
    {
        "scalar": numpy.array(2.5, "f4"),
        "empty": numpy.zeros((0,), "f4"),
        "empty.3d": numpy.zeros((2, 0, 3), "i8"),
        "gewicht.größe.重み": numpy.array([1, 2], "i4"),
        'quote " backslash \\ newline \n': numpy.array([3], "u1"),
        "": numpy.array([4.0], "f8"),
        "eight.dimensions": numpy.arange(2, dtype="f4").reshape(1, 1, 1, 2, 1, 1, 1, 1),
    },
    folder / "shapes.safetensors",
    metadata={"made by": "safetensors", "größe": "重み", "empty": ""},
)

safetensors.numpy.save_file({}, folder / "nothing.safetensors")
safetensors.serialize_file({"x": raw("int16", [2], bytes(4))}, folder / "int16.safetensors", None)
