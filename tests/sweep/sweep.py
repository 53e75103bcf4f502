"""Makes the calls of functions.def with PyTorch, and writes what came of them for sweep_test.cpp.

    python3 tests/sweep/sweep.py FOLDER        (a Python with torch; into FOLDER/sweep.json and FOLDER/sweep.bin)

Each call is made with its own dtypes and, where it has floating ones, once more in float64: rounding of PyTorch's own is
no difference. Gradients are those of the sum over all floating outputs, each element weighted by weight().
"""

import array
import json
import pathlib
import re
import sys
import warnings

import torch
from torch.nn import functional as F

import inputs
from inputs import inf, nan

ROW = re.compile(r"^ROW\((\w+), (\w+), (.*)\)$")
# Without a counterpart, or with random results alone.
UNCALLED = {"bernoulli", "gumbel_softmax", "mean_cross_entropy", "mean_nll_loss", "multinomial", "normal", "rotary_embedding"}
HERE = pathlib.Path(__file__).resolve().parent
warnings.filterwarnings("ignore")
torch.set_num_threads(1)


def rows():
    """(line, function, inputs, Python) of each row."""
    for number, line in enumerate((HERE / "functions.def").read_text().splitlines(), 1):
        if not (found := ROW.match(line)):
            continue
        function, kind, rest = found.groups()
        depth = 0
        for end, letter in enumerate(rest):
            depth += letter in "("
            depth -= letter in ")"
            if letter == "," and depth == 0:
                break
        yield number, function, kind, compile(rest[:end], f"functions.def:{number}", "eval")


def check_all_are_called():
    declared = set()
    for header in (HERE / "../../include/lockstep/ops").glob("*.h"):
        declared |= set(re.findall(r"^(?:LOCKSTEP_API|inline) [\w:<>]+ ([a-z]\w+)\(", header.read_text(), re.MULTILINE))
    if missing := declared - {function for _, function, _, _ in rows()} - UNCALLED:
        sys.exit(f"functions.def lacks {', '.join(sorted(missing))}")


class Values:
    """All numbers, 8 bytes each: int64 as they are, others as float64."""

    def __init__(self):
        self.bytes = bytearray()

    def add(self, x):
        at = len(self.bytes) // 8
        kept = x.detach().reshape(-1)
        if x.dtype == torch.int64:
            self.bytes += array.array("q", kept.tolist()).tobytes()
        else:
            self.bytes += array.array("d", kept.to(torch.float64).tolist()).tobytes()
        return {"dtype": inputs.short(x.dtype), "sizes": list(x.shape), "at": at}


def weight(y):
    """As weights() of sweep_test.cpp."""
    return ((torch.arange(y.numel()) % 5 - 2) * 0.5 + 0.25).to(y.dtype).view(y.shape)


def result(code, tensors):
    """Outputs and the gradients of the floating inputs, or a text that says why not."""
    given = {}
    for name, tensor in zip("xyzw", tensors):
        given[name] = tensor
    try:
        y = eval(code, {"torch": torch, "F": F, "inf": inf, "nan": nan, **given})
    except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as error:
        return None, str(error).splitlines()[0][:100] if str(error) else "an error"
    outputs = list(y) if isinstance(y, (tuple, list)) else [y]
    roots = [value for value in outputs if value.requires_grad]
    if roots:
        try:
            torch.autograd.backward(roots, [weight(value) for value in roots])
        except (RuntimeError, IndexError, NotImplementedError) as error:
            return outputs, str(error).splitlines()[0][:100]
    return outputs, [t.grad if t is not None and t.requires_grad else None for t in tensors]


def leaf(tensor, widen):
    if tensor is None:
        return None
    values, layout = tensor
    if widen and values.is_floating_point():
        values = values.double()
    x = inputs.laid_out(values, layout).detach()
    return x.requires_grad_() if x.is_floating_point() else x


def main():
    check_all_are_called()
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    values, sets, calls = Values(), {}, []
    made = {}
    for number, function, kind, code in rows():
        if kind not in made:
            made[kind] = getattr(inputs, kind)()
            sets[kind] = [
                {"name": name, "tensors": [None if t is None else values.add(t[0]) | {"layout": t[1]} for t in tensors]}
                for name, tensors in made[kind]]
        for place, (name, tensors) in enumerate(made[kind]):
            call = {"line": number, "inputs": kind, "set": place}
            outputs, grads = result(code, [leaf(t, False) for t in tensors])
            if outputs is None:
                call["refused"] = grads
            else:
                call["outputs"] = [values.add(y) for y in outputs]
                call["grads"] = grads if isinstance(grads, str) else [None if g is None else values.add(g) for g in grads]
            exact, exact_grads = result(code, [leaf(t, True) for t in tensors])
            if exact is not None:
                call["exact"] = [values.add(y) for y in exact]
                if not isinstance(exact_grads, str):
                    call["exact_grads"] = [None if g is None else values.add(g) for g in exact_grads]
            calls.append(call)
    (folder / "sweep.json").write_text(json.dumps({"torch": torch.__version__, "inputs": sets, "calls": calls}))
    (folder / "sweep.bin").write_bytes(values.bytes)
    print(f"{len(calls)} calls of {len({f for _, f, _, _ in rows()})} functions")


main()
