#!/usr/bin/env python3
"""Writes optimizer_paths.json beside it: paths of optimizers, learning rates and averages as PyTorch computes them, in float64.

  PYTHON_WITH_TORCH tests/reference/make_optimizer_paths.py
"""
import json
import pathlib
import warnings

import torch
from torch import nn
from torch.optim import lr_scheduler, swa_utils

warnings.simplefilter("ignore")
torch.set_default_dtype(torch.float64)
folder = pathlib.Path(__file__).parent
model_data = json.loads((folder / "optimizers.json").read_text())
STEPS = (1, 2, 3, 6, 11, 101, 501)


def model():
    net = nn.Sequential(nn.Linear(2, 3), nn.Sigmoid(), nn.Linear(3, 1), nn.Sigmoid())
    with torch.no_grad():
        for parameter, values in zip(net.parameters(), model_data["init"]):
            parameter.copy_(torch.tensor(values).view_as(parameter))
    return net


def run(name, options):
    net = model()
    optimizer = getattr(torch.optim, name)(net.parameters(), **options)
    samples = []
    for step in range(1, STEPS[-1] + 1):
        optimizer.zero_grad()
        net(torch.tensor(model_data["input"])).sum().backward()
        optimizer.step()
        if step in STEPS:
            samples.append({"step": step, "parameters": [p.tolist() for p in net.parameters()]})
    return {"optimizer": name, "options": options, "samples": samples}


def lbfgs(function, options, maximize=False):
    x = torch.tensor([-1.2, 0.3, 2.0], requires_grad=True)
    y = torch.tensor([[1.0, -0.5, 0.7]], requires_grad=True)
    optimizer = torch.optim.LBFGS([x, y], **options)

    def closure():
        optimizer.zero_grad()
        if function == "rosenbrock":
            loss = (100 * (y - x * x) ** 2 + (1 - x) ** 2).sum()
        else:
            loss = ((x - 1) ** 4).sum() + (3 * (y - 0.5 * x) ** 2).sum()
        loss = -loss if options.get("maximize") else loss
        loss.backward()
        return loss

    steps = []
    for _ in range(6):
        loss = optimizer.step(closure)
        state = optimizer.state[x]
        steps.append({"loss": loss.item(), "func_evals": state["func_evals"], "n_iter": state["n_iter"],
                      "x": x.tolist(), "y": y.flatten().tolist()})
    return {"function": function, "options": options, "steps": steps}


def groups():
    """Two groups with options of their own; a third is added after step 3, with a schedule on."""
    net = model()
    p = list(net.parameters())
    optimizer = torch.optim.Adam([{"params": p[:1], "lr": 0.05, "weight_decay": 0.1}, {"params": p[1:2], "lr": 0.01}])
    schedule = lr_scheduler.ExponentialLR(optimizer, 0.9)
    rates = []
    for step in range(8):
        if step == 3:
            optimizer.add_param_group({"params": p[2:], "lr": 0.02, "betas": (0.5, 0.6)})
        optimizer.zero_grad()
        net(torch.tensor(model_data["input"])).sum().backward()
        optimizer.step()
        if step < 3:
            schedule.step()
        rates.append([group["lr"] for group in optimizer.param_groups])
    return {"parameters": [q.tolist() for q in p], "rates": rates}


def rates(name, make, lrs=(0.5, 0.2), steps=30):
    optimizer = torch.optim.SGD([{"params": [torch.zeros(1, requires_grad=True)], "lr": lr} for lr in lrs], momentum=0.9)
    schedule = make(optimizer)
    lr, momentum = [], []
    for _ in range(steps):
        lr.append([group["lr"] for group in optimizer.param_groups])
        momentum.append(optimizer.param_groups[0]["momentum"])
        optimizer.step()
        schedule.step()
    return {"case": name, "lr": lr, "momentum": momentum}


def swa_after_step():
    """SWALR takes over from another schedule."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    step, swa = lr_scheduler.StepLR(optimizer, 3, 0.5), swa_utils.SWALR(optimizer, 0.05, 4, "linear")
    lr = []
    for epoch in range(20):
        lr.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        (swa if epoch >= 8 else step).step()
    return lr


S = lr_scheduler
schedules = [
    rates("LambdaLR", lambda o: S.LambdaLR(o, lambda e: 0.95**e)),
    rates("LambdaLR of each group", lambda o: S.LambdaLR(o, [lambda e: 1 / (1 + e), lambda e: e + 0.5])),
    rates("MultiplicativeLR", lambda o: S.MultiplicativeLR(o, lambda e: 0.9 if e % 3 else 1.2)),
    rates("ConstantLR", lambda o: S.ConstantLR(o)),
    rates("ConstantLR options", lambda o: S.ConstantLR(o, 0.25, 9)),
    rates("CyclicLR", lambda o: S.CyclicLR(o, 0.01, 0.1, 4)),
    rates("CyclicLR down", lambda o: S.CyclicLR(o, [0.01, 0.02], [0.1, 0.3], 3, 5, base_momentum=0.7, max_momentum=0.95)),
    rates("CyclicLR triangular2", lambda o: S.CyclicLR(o, 0.01, 0.1, 4, mode="triangular2", cycle_momentum=False)),
    rates("CyclicLR exp_range", lambda o: S.CyclicLR(o, 0.01, 0.1, 4, mode="exp_range", gamma=0.97)),
    rates("CyclicLR scale_fn", lambda o: S.CyclicLR(o, 0.01, 0.1, 4, 2, scale_fn=lambda x: 1 / x)),
    rates("CyclicLR scale_fn iterations",
          lambda o: S.CyclicLR(o, 0.01, 0.1, 4, scale_fn=lambda x: 0.9**x, scale_mode="iterations")),
    rates("OneCycleLR epochs", lambda o: S.OneCycleLR(o, 0.1, epochs=6, steps_per_epoch=6)),
    rates("SWALR", lambda o: swa_utils.SWALR(o, 0.05)),
    rates("SWALR linear", lambda o: swa_utils.SWALR(o, [0.05, 0.9], 5, "linear")),
    rates("SWALR at once", lambda o: swa_utils.SWALR(o, 0.05, 0)),
    rates("SequentialLR", lambda o: S.SequentialLR(
        o, [S.ConstantLR(o, 0.1, 100), S.LambdaLR(o, lambda e: 0.8**e)], [5])),
]


def averages(avg_fn, use_buffers):
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).view_as(parameter))
    averaged = swa_utils.AveragedModel(net, avg_fn=avg_fn, use_buffers=use_buffers)
    for step in range(4):
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.mul_(0.5).add_(step)
            for buffer in net.buffers():
                buffer.add_(step + 1)
        averaged.update_parameters(net)
    return {key: value.tolist() for key, value in averaged.state_dict().items()}


(folder / "optimizer_paths.json").write_text(json.dumps({
    "torch": torch.__version__,
    "optimizers": [
        run("RAdam", {"lr": 0.05}),
        run("RAdam", {"lr": 0.02, "betas": (0.7, 0.9), "eps": 1e-3, "weight_decay": 0.1, "maximize": True}),
        run("RAdam", {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ],
    "lbfgs": [
        lbfgs("quartic", {}),
        lbfgs("quartic", {"lr": 0.5, "max_iter": 5, "history_size": 2}),
        lbfgs("quartic", {"max_iter": 4, "max_eval": 3, "maximize": True}),
        lbfgs("quartic", {"tolerance_change": 1e-2, "tolerance_grad": 1e-3}),
        lbfgs("rosenbrock", {"max_iter": 3, "line_search_fn": "strong_wolfe"}),
        lbfgs("rosenbrock", {"lr": 0.1, "max_iter": 4, "max_eval": 7, "history_size": 3, "line_search_fn": "strong_wolfe"}),
        lbfgs("rosenbrock", {"lr": 5, "max_iter": 2, "line_search_fn": "strong_wolfe"}),
        lbfgs("quartic", {"line_search_fn": "strong_wolfe"}),
    ],
    "groups": groups(),
    "schedules": schedules,
    "swa_after_step": swa_after_step(),
    "averages": {
        "swa": averages(None, False),
        "swa of buffers": averages(swa_utils.get_swa_avg_fn(), True),
        "ema": averages(swa_utils.get_ema_avg_fn(0.75), False),
    },
}, indent=0).replace(",\n", ", ").replace("[\n", "[").replace("\n]", "]") + "\n")
