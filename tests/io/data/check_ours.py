"""Reads what the tests wrote into a folder with the format's own implementation; see README.md."""

import pathlib
import struct
import sys

import numpy
import safetensors

path = pathlib.Path(sys.argv[1]) / "ours.safetensors"
ours = dict(safetensors.deserialize(path.read_bytes()))

numbers = numpy.arange(6).reshape(2, 3)
expected = {
    "bool": ("BOOL", [2, 3], (numbers % 2).astype("u1").tobytes()),
    "uint8": ("U8", [2, 3], numbers.astype("u1").tobytes()),
    "int32": ("I32", [2, 3], numbers.astype("<i4").tobytes()),
    "int64": ("I64", [2, 3], numbers.astype("<i8").tobytes()),
    "float16": ("F16", [2, 3], numbers.astype("<f2").tobytes()),
    "bfloat16": ("BF16", [2, 3], b"".join(struct.pack("<f", value)[2:] for value in numbers.flat)),
    "float32": ("F32", [2, 3], numbers.astype("<f4").tobytes()),
    "float64": ("F64", [2, 3], numbers.astype("<f8").tobytes()),
    "transposed": ("F32", [3, 2], numbers.T.astype("<f4").tobytes()),
    "scalar": ("F32", [], struct.pack("<f", 2.5)),
    "empty": ("F32", [2, 0, 3], b""),
    'gewicht.größe.重み " \\ \n': ("I32", [1], struct.pack("<i", 7)),
}
assert ours.keys() == expected.keys(), ours.keys() ^ expected.keys()
for key, (dtype, shape, data) in expected.items():
    got = ours[key]
    assert (got["dtype"], list(got["shape"]), bytes(got["data"])) == (dtype, shape, data), (key, got)

with safetensors.safe_open(path, "numpy") as file:
    metadata = file.metadata()
    assert metadata.pop("lockstep.checksum.header").startswith("xxh3:")
    assert len(metadata.pop("lockstep.checksum.tensors").split()) == len(expected)
    assert metadata == {"made by": "Lockstep", "größe": "重み"}, metadata
    for key in file.keys():
        if key != "bfloat16":
            assert file.get_tensor(key).tobytes() == expected[key][2], key
print(f"{path}: {len(expected)} tensors as expected")
