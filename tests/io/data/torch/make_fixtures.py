"""Writes the *.pt files of this folder with PyTorch; see ../README.md."""

import argparse
import collections
import pathlib

import numpy
import torch

folder = pathlib.Path(__file__).parent
numbers = torch.arange(6).reshape(2, 3)
names = "uint8 int32 int64 float16 bfloat16 float32 float64".split()
all_dtypes = {name: numbers.to(getattr(torch, name)) for name in names}
torch.save({"bool": numbers % 2 == 1, **all_dtypes}, folder / "dtypes.pt")

base = torch.arange(24.0)
torch.save(
    collections.OrderedDict(
        transposed=base[:6].view(2, 3).t(),
        every_other=base[1:12:2],
        expanded=base[3:4].expand(2, 2),
        scalar=torch.tensor(2.5, dtype=torch.float64),
        empty=torch.zeros(2, 0, 3),
        whole=base,
        parameter=torch.nn.Parameter(torch.tensor([1.5, -2.5])),
    ),
    folder / "strided.pt",
)

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
with torch.no_grad():
    model[0].weight.copy_(torch.arange(6.0).view(3, 2))
    model[0].bias.copy_(torch.tensor([0.5, -0.5, 1.0]))
torch.save(model.state_dict(), folder / "model.pt")

checkpoint = {
    "model": model.state_dict(),
    "epoch": 3,
    "steps": 1 << 40,
    "below": -300,
    "loss": 0.125,
    "best": True,
    "scheduler": None,
    "name": "größe",
    "sizes": torch.Size([2, 3]),
    "history": [0.5, 0.25],
    "state": {0: {"momentum": torch.ones(2)}},
}
torch.save(checkpoint, folder / "checkpoint.pt")
torch.save(checkpoint, folder / "checkpoint_protocol4.pt", pickle_protocol=4)

torch.save(model, folder / "whole_model.pt")
torch.save({"x": torch.zeros(2, dtype=torch.int16)}, folder / "int16.pt")
torch.save({"x": torch.zeros(2)}, folder / "before_1_6.pt", _use_new_zipfile_serialization=False)
torch.save(torch.zeros(2), folder / "tensor.pt")

objects = {
    "weight": torch.ones(2),
    "args": argparse.Namespace(lr=0.1),
    "milestones": collections.Counter({30: 1, 60: 2}),
    "groups": collections.defaultdict(list, {"a": [1.5]}),
    "best": numpy.float64(0.5),
    "device": torch.device("cpu"),
    "dtype": torch.float32,
    "seen": {1, 2},
    "frozen": frozenset([1]),
    "raw": b"bytes",
    "bytearray": bytearray(b"bytes"),
    "large": 1 << 80,
    "folder": pathlib.PurePosixPath("a/b"),
    "recent": collections.deque([1, 2]),
    "by_pair": {(1, 2): 3},
    "model": torch.nn.Sequential(torch.nn.Linear(1, 1)),
    "epoch": 7,
}
torch.save(objects, folder / "objects.pt")
torch.save(objects, folder / "objects_protocol5.pt", pickle_protocol=5)
torch.save({"x": torch.eye(2).to_sparse()}, folder / "sparse.pt")
torch.jit.script(torch.nn.Linear(2, 1)).save(folder / "script.pt")
