"""Holds the cases of ops.json against PyTorch, and adds those in NEW that are not there yet.

Inputs are float32, kept as they are; outputs and gradients are computed and stored in float64. scripts/make-reference
runs this. To add a case, append to NEW; where `call` does not know the op, teach it.
"""

import json
import pathlib
import sys

import safetensors.torch
import torch
from torch.nn import functional as F

folder = pathlib.Path(__file__).parent


def normal(*sizes):
    return ("normal", sizes)


def uniform(*sizes):
    return ("uniform", sizes)


def integers(below, *sizes):
    return ("integers", sizes, below)


# (case, op, args, inputs[, names of inputs])
NEW = []


def drawn(spec, generator):
    kind, sizes, *rest = spec
    if kind == "normal":
        return torch.randn(sizes, generator=generator)
    if kind == "uniform":
        return torch.rand(sizes, generator=generator)
    return torch.randint(0, rest[0], sizes, generator=generator)


def recurrent(kind, args, inputs):
    options = {key: value for key, value in args.items() if key != "outputs"}
    layer = getattr(torch.nn, kind)(**options).double()
    weights = dict(inputs[1:])
    layer._flat_weights = [weights[name] for name in layer._flat_weights_names]  # what its forward reads
    output, state = layer(inputs[0][1])
    return (output, *state) if isinstance(state, tuple) else (output, state)


def module(layer, named, *arguments):
    result = torch.func.functional_call(layer.double(), dict(named), arguments)
    return result[0] if isinstance(result, tuple) else result


def batch_norm(x, weight, bias, mean, variance, training, momentum, eps):
    mean, variance = mean.detach().clone(), variance.detach().clone()
    y = F.batch_norm(x, mean, variance, weight, bias, training, momentum, eps)
    return y, mean, variance


def call(op, args, inputs, names):
    """The outputs of a case. `inputs` in the order of ops.json; `names` where they are weights."""
    x, rest, named = inputs[0], inputs[1:], list(zip(names, inputs))
    args = dict(args)
    if op in ("rnn", "lstm", "gru"):
        return recurrent(op.upper(), args, named)
    if op == "batch_norm":
        args.pop("outputs")
        return batch_norm(*inputs, **args)
    if op == "multihead_attention":
        return module(torch.nn.MultiheadAttention(**args), named[1:], x, x, x)
    if op == "transformer_encoder_layer":
        return module(torch.nn.TransformerEncoderLayer(**args), named[1:], x)
    if op in ("layer_norm", "group_norm"):
        weight, bias = rest
        if op == "layer_norm":
            return F.layer_norm(x, weight.shape, weight, bias, **args)
        return F.group_norm(x, args["num_groups"], weight, bias, args["eps"])
    if op == "embedding":
        first_is_weight = x.is_floating_point()
        weight, index = (x, rest[0]) if first_is_weight else (rest[0], x)
        return F.embedding(index, weight, **args)
    if op == "cross_entropy":
        args.pop("weighted", None)
        return F.cross_entropy(x, rest[0], *rest[1:], **args)
    if op == "slice":
        return x[tuple(slice(*part) for part in args["slices"])].clone()
    if op == "pad":
        return F.pad(x, args["pad"], value=args["value"])
    if op == "prod" and "dim" in args:
        return torch.prod(x, args["dim"][0], args["keepdim"])
    if op == "roll":
        return torch.roll(x, args["shifts"], args["dim"])
    if op == "norm":
        return torch.linalg.vector_norm(x, **args)
    if op in ("index_select", "gather", "scatter_add"):
        return getattr(torch, op)(x, args["dim"], *rest)
    if op in ("cat", "stack"):
        return getattr(torch, op)(inputs, **args)
    if op == "masked_fill":
        return x.masked_fill(rest[0].bool(), args["value"])
    if op == "where":
        return torch.where(x.bool(), *rest)
    if op in ("expand", "permute"):
        return getattr(x, op)(*args.values())
    function = getattr(F, op, None) or getattr(torch, op)
    if hasattr(torch, op) and op not in ("conv1d", "conv2d", "conv3d", "conv_transpose2d", "softmax", "log_softmax"):
        function = getattr(torch, op) if not hasattr(F, op) else function
    return function(*inputs, **args)


def computed(case, tensors, seeds=None):
    """Outputs, seeds and gradients of a case, in float64."""
    inputs = [tensors[name] for name in case["inputs"]]
    wants = case.get("grads")
    if wants is None:
        wants = [value.is_floating_point() or None for value in inputs]
    inputs = [value.double() if value.is_floating_point() else value for value in inputs]
    for value, wanted in zip(inputs, wants):
        if wanted is not None:
            value.requires_grad_()
    outputs = call(case["op"], case["args"], inputs, case["input_names"])
    outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    if seeds is None:
        generator = torch.Generator().manual_seed(len(case["case"]))
        seeds = [torch.randn(y.shape, generator=generator).double() for y in outputs if y.is_floating_point()]
    roots = [(y, seed.double()) for y, seed in zip(outputs, seeds) if y.requires_grad]
    if roots:
        torch.autograd.backward([y for y, _ in roots], [seed for _, seed in roots])
    grads = [value.grad if value.requires_grad else None for value in inputs]
    return [y.detach() for y in outputs], seeds, grads


def difference(got, expected):
    if got.shape != expected.shape:
        return float("inf")
    got, expected = got.double(), expected.double()
    if got.numel() == 0:
        return 0.0
    return float((got - expected).abs().max() / max(1e-3, float(expected.abs().max())))


def check(cases, tensors):
    wrong = 0
    for case in cases:
        try:
            outputs, _, grads = computed(case, tensors, [tensors[name] for name in case["seeds"]])
            pairs = list(zip(outputs, case["outputs"]))
            pairs += [(grad, name) for grad, name in zip(grads, case["grads"]) if name is not None]
            worst = max([difference(got, tensors[name]) for got, name in pairs], default=0.0)
            said = f"differs by {worst:.1e}" if worst > 1e-9 else ""
        except Exception as error:  # one case, whatever is wrong with it, does not hide the others
            said = f"{type(error).__name__}: {error}"
        if said:
            wrong += 1
            print(f"{case['case']}: {said}")
    print(f"{len(cases) - wrong} of {len(cases)} cases as PyTorch {torch.__version__} computes them")
    return wrong


def fill(case, tensors):
    """Computes a case, and stores its outputs, seeds (those that it has, or new ones) and gradients."""
    name = case["case"]
    outputs, seeds, grads = computed(case, tensors, [tensors[key] for key in case["seeds"]] if "seeds" in case else None)
    for kind, key, values in (("out", "outputs", outputs), ("seed", "seeds", seeds), ("grad_in", "grads", grads)):
        case[key] = [None if value is None else f"{name}/{kind}{i}" for i, value in enumerate(values)]
        tensors |= {key: value.contiguous() for key, value in zip(case[key], values) if key}


def remake(cases, tensors, ops):
    for case in cases:
        if not ops or case["op"] in ops:
            if case["op"] in ("rnn", "lstm", "gru"):
                case.pop("grads", None)  # of all weights
            fill(case, tensors)
            print(f"{case['case']}: made anew")


def add(cases, tensors):
    known = {case["case"] for case in cases}
    for name, op, args, inputs, *names in NEW:
        if name in known:
            continue
        generator = torch.Generator().manual_seed(sum(name.encode()))
        case = {"case": name, "op": op, "args": args, "inputs": [f"{name}/in{i}" for i in range(len(inputs))]}
        case["input_names"] = names[0] if names else [None] * len(inputs)
        for key, spec in zip(case["inputs"], inputs):
            tensors[key] = drawn(spec, generator)
        fill(case, tensors)
        cases.append(case)
        print(f"{name}: added")


def write(cases, tensors):
    lines = ",\n".join(json.dumps(case) for case in cases)
    (folder / "ops.json").write_text(f"[\n{lines}\n]\n")
    safetensors.torch.save_file(tensors, folder / "ops.safetensors", {"torch": torch.__version__})


def main():
    cases = json.loads((folder / "ops.json").read_text())
    tensors = safetensors.torch.load_file(folder / "ops.safetensors")
    option, *ops = sys.argv[1:] or ["--check"]
    if option == "--add":
        add(cases, tensors)
    elif option == "--remake":
        remake(cases, tensors, ops)
    if option != "--check":
        write(cases, tensors)
    return 1 if check(cases, tensors) else 0


sys.exit(main())
