#!/usr/bin/env python3
"""Makes recurrent.json and recurrent.safetensors with PyTorch (PyPI's torch): README.md of the folder above says why.

    python3 make.py            writes the files beside this one
"""
import json
import pathlib
import struct

import numpy as np
import torch

here = pathlib.Path(__file__).resolve().parent
NUMPY = {"F32": np.float32, "F64": np.float64, "I64": np.int64}
NAMES = {torch.float32: "F32", torch.float64: "F64"}


def read(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    begin = 8 + length
    return {
        name: torch.from_numpy(
            np.frombuffer(data[begin + e["data_offsets"][0]:begin + e["data_offsets"][1]], NUMPY[e["dtype"]])
            .reshape(e["shape"]).copy())
        for name, e in header.items() if name != "__metadata__" and e["dtype"] in NUMPY
    }


def write(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        piece = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def case_of(name, op, module, x, seeds_of):
    """Runs the module in float64 on float32 values: inputs x, parameters; outputs; gradients of all inputs."""
    kinds = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}
    assert isinstance(module, kinds[op])
    names = [n for n, _ in module.named_parameters()]
    inputs = [x] + [p.detach().clone() for _, p in module.named_parameters()]
    module = module.double()
    x64 = x.double().requires_grad_()
    output, state = module(x64)
    outputs = [output, *(state if isinstance(state, tuple) else [state])]
    seeds = seeds_of(outputs)
    torch.autograd.backward(outputs, [s.double() for s in seeds])
    grads = [x64.grad] + [p.grad for _, p in module.named_parameters()]
    tensors = {}
    case = {"case": name, "op": op, "args": {
        "input_size": module.input_size, "hidden_size": module.hidden_size, "num_layers": module.num_layers,
        "bidirectional": module.bidirectional, "batch_first": module.batch_first,
        "outputs": ["output", "h_n", "c_n"][:len(outputs)]}}
    if op == "lstm" and module.proj_size:
        case["args"]["proj_size"] = module.proj_size
    if op == "rnn" and module.nonlinearity != "tanh":
        case["args"]["nonlinearity"] = module.nonlinearity
    for key, what, values in (("inputs", "in", inputs), ("outputs", "out", outputs), ("seeds", "seed", seeds),
                              ("grads", "grad_in", grads)):
        case[key] = [f"{name}/{what}{i}" for i in range(len(values))]
        tensors.update(zip(case[key], values))
    case["input_names"] = [None] + names
    return case, tensors


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    stored = read(here.parent / "ops.safetensors")
    cases, tensors = [], {}
    kinds = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}

    def add(name, op, module, x, seeds_of):
        case, more = case_of(name, op, module, x, seeds_of)
        cases.append(case)
        tensors.update(more)

    # The six cases, from their own inputs, weights and seeds.
    for old in json.loads((here.parent / "ops.json").read_text()):
        if old["op"] not in kinds:
            continue
        args = {k: v for k, v in old["args"].items() if k != "outputs"}
        module = kinds[old["op"]](**args)
        module.load_state_dict({n: stored[i] for n, i in zip(old["input_names"][1:], old["inputs"][1:])})
        add(old["case"], old["op"], module, stored[old["inputs"][0]], lambda _: [stored[s] for s in old["seeds"]])

    # Forms that those do not have.
    random_seeds = lambda outputs: [torch.randn(o.shape) for o in outputs]
    more = {
        "rnn.relu": torch.nn.RNN(3, 4, 2, nonlinearity="relu"),
        "rnn.no_bias": torch.nn.RNN(3, 4, bias=False),
        "gru.no_bias": torch.nn.GRU(3, 4, bias=False, batch_first=True),
        "lstm.no_bias": torch.nn.LSTM(3, 4, bias=False, bidirectional=True),
        "lstm.projected": torch.nn.LSTM(3, 5, 2, proj_size=2, bidirectional=True, batch_first=True),
    }
    for name, module in more.items():
        add(name, name.split(".")[0], module, torch.randn(2, 5, 3), random_seeds)
    (here / "recurrent.json").write_text(json.dumps(cases, indent=1) + "\n")
    write(here / "recurrent.safetensors", tensors)


main()
