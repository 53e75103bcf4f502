"""Computes optimizers.json anew with the installed PyTorch, for the settings, the model and the input that it lists.

Parameters are float64, the steps those of the samples that are there. scripts/make-reference runs this.
"""

import json
import pathlib

import torch

path = pathlib.Path(__file__).parent / "optimizers.json"


def samples(kind, options, steps, init, x):
    parameters = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in init]
    w1, b1, w2, b2 = parameters
    optimizer = getattr(torch.optim, kind)(parameters, **options)
    taken = []
    for step in range(1, max(steps) + 1):
        optimizer.zero_grad()
        torch.sigmoid(torch.sigmoid(x @ w1.T + b1) @ w2.T + b2).sum().backward()
        optimizer.step()
        if step in steps:
            taken.append({"step": step, "parameters": [value.tolist() for value in parameters]})
    return taken


def rates(kind, options, initial_lr, count):
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=initial_lr)
    schedule = getattr(torch.optim.lr_scheduler, kind)(optimizer, **options)
    seen = []
    for _ in range(count):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return seen


def main():
    reference = json.loads(path.read_text())
    x = torch.tensor(reference["input"], dtype=torch.float64)
    for entry in reference["optimizers"]:
        steps = [sample["step"] for sample in entry["samples"]]
        entry["samples"] = samples(entry["optimizer"], entry["options"], steps, reference["init"], x)
    for entry in reference["schedules"]:
        entry["lr"] = rates(entry["schedule"], entry["options"], entry["initial_lr"], len(entry["lr"]))
    path.write_text(json.dumps({"torch": torch.__version__} | {k: v for k, v in reference.items() if k != "torch"}) + "\n")


main()
