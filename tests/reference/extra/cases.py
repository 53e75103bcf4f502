"""Cases in the form of ../ops.json, by PyTorch: what the scripts beside this file record, and write.

Inputs are float32; outputs and gradients are computed and stored in float64.
"""
import json
import pathlib
import struct

import torch

FOLDER = pathlib.Path(__file__).resolve().parent
DTYPES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64", torch.bool: "BOOL"}
cases, tensors = [], {}
random = torch.Generator().manual_seed(20)


def normal(*sizes):
    return torch.randn(sizes, generator=random)


def uniform(*sizes, low=0.0, high=1.0):
    return torch.rand(sizes, generator=random) * (high - low) + low


def signs(*sizes):
    return torch.randint(0, 2, sizes, generator=random).float() * 2 - 1


def classes(*sizes, count):
    return torch.randint(0, count, sizes, generator=random)


def case(op, function, inputs, name=None, constant=(), **args):
    """One case. `function` takes the inputs, and args by name. Inputs at places in `constant` get no gradient."""
    name = "extra/" + op + ("" if name is None else "_" + name)
    wide = [x.double() if x.is_floating_point() else x.clone() for x in inputs]
    for place, x in enumerate(wide):
        if x.is_floating_point() and place not in constant:
            x.requires_grad_()
    output = function(*wide, **args)
    seed = torch.randn(output.shape, generator=random).double()
    output.backward(seed)
    entry = {"case": name, "op": op, "args": args, "inputs": [], "input_names": [None] * len(inputs)}

    def store(kind, value):
        tensors[f"{name}/{kind}"] = value.detach().contiguous().clone()
        return f"{name}/{kind}"

    for place, x in enumerate(inputs):
        entry["inputs"].append(store(f"in{place}", x))
    entry["outputs"] = [store("out0", output)]
    entry["seeds"] = [store("seed0", seed)]
    entry["grads"] = [store(f"grad_in{place}", x.grad) if x.grad is not None else None for place, x in enumerate(wide)]
    cases.append(entry)


def write(stem):
    """Into stem.json and stem.safetensors beside this file."""
    with open(FOLDER / f"{stem}.json", "w") as out:
        out.write("[\n" + ",\n".join(json.dumps(entry) for entry in cases) + "\n]\n")
    header, data = {}, b""
    for name, value in tensors.items():
        bytes_ = value.numpy().tobytes()
        header[name] = {
            "dtype": DTYPES[value.dtype],
            "shape": list(value.shape),
            "data_offsets": [len(data), len(data) + len(bytes_)],
        }
        data += bytes_
    text = json.dumps({"__metadata__": {"torch": torch.__version__}, **header}).encode()
    text += b" " * (-len(text) % 8)
    (FOLDER / f"{stem}.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
