"""Computes with PyTorch what training_idioms.cpp writes, and stores it by name: PYTHON with torch and safetensors,
python make_training_idioms.py. The file in the repository was made with PyTorch 2.15.0."""
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn, tensor
from torch.optim import lr_scheduler, swa_utils

k = {}
matrix = lambda: tensor([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]])
other = lambda: tensor([[2.0, 2.0, 2.0], [-4.0, 1.0, 0.5]])
positive = lambda: tensor([[0.5, 1.0, 2.0], [4.0, 8.0, 16.0]])
image = lambda: torch.linspace(-1, 1, 72).view(1, 2, 6, 6)


def filled(layer):
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_(torch.linspace(-0.5, 0.5, p.numel()).view(p.shape))
    return layer


def net():
    return filled(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)))


def rates(make, steps=6):
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.5, momentum=0.9)
    schedule = make(optimizer)
    all = []
    for _ in range(steps):
        all.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return tensor(all)


def trained(make, steps=3):
    layer = filled(nn.Linear(3, 1))
    optimizer = make(layer)

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(layer(matrix()), torch.ones(2, 1))
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return layer.weight.detach().clone()


# Optimizers and schedules.
S = lr_scheduler
k["LambdaLR"] = rates(lambda o: S.LambdaLR(o, lambda epoch: 0.95**epoch))
k["LambdaLR by its option"] = rates(lambda o: S.LambdaLR(o, lr_lambda=lambda epoch: 1 / (epoch + 1)))
k["MultiplicativeLR"] = rates(lambda o: S.MultiplicativeLR(o, lambda epoch: 0.9))
k["ConstantLR"] = rates(lambda o: S.ConstantLR(o, factor=0.5, total_iters=3))
k["CyclicLR"] = rates(lambda o: S.CyclicLR(o, base_lr=0.01, max_lr=0.1, step_size_up=2, mode="triangular2"))
k["StepLR by position"] = rates(lambda o: S.StepLR(o, 2, 0.5))
k["ExponentialLR by position"] = rates(lambda o: S.ExponentialLR(o, 0.9))
k["CosineAnnealingLR"] = rates(lambda o: S.CosineAnnealingLR(o, T_max=5))
k["CosineAnnealingWarmRestarts"] = rates(lambda o: S.CosineAnnealingWarmRestarts(o, T_0=2, T_mult=2))
k["OneCycleLR of epochs"] = rates(lambda o: S.OneCycleLR(o, max_lr=0.1, epochs=2, steps_per_epoch=5))
k["SWALR"] = rates(lambda o: swa_utils.SWALR(o, swa_lr=0.05, anneal_epochs=4, anneal_strategy="linear"))
k["SequentialLR"] = rates(lambda o: S.SequentialLR(
    o, schedulers=[S.LinearLR(o, total_iters=2), S.ExponentialLR(o, gamma=0.5)], milestones=[2]))
optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.5)
schedule = S.StepLR(optimizer, step_size=1)
optimizer.step()
schedule.step()
k["get_last_lr"] = tensor(schedule.get_last_lr())
optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.5)
plateau = S.ReduceLROnPlateau(optimizer, mode="max", factor=0.5, patience=0)
for metric in (1.0, 2.0, 1.5):
    plateau.step(metric)
k["ReduceLROnPlateau of a maximum"] = tensor(optimizer.param_groups[0]["lr"])
k["RAdam"] = trained(lambda layer: torch.optim.RAdam(layer.parameters(), lr=0.1), 8)
k["LBFGS"] = trained(lambda layer: torch.optim.LBFGS(layer.parameters(), lr=0.1, max_iter=4))
k["LBFGS with a line search"] = trained(
    lambda layer: torch.optim.LBFGS(layer.parameters(), max_iter=2, line_search_fn="strong_wolfe"), 1)
k["step of a closure"] = trained(lambda layer: torch.optim.SGD(layer.parameters(), lr=0.01))
k["groups"] = trained(lambda layer: torch.optim.SGD(
    [{"params": [layer.weight], "lr": 0.01}, {"params": [layer.bias], "lr": 0.1}], lr=1))


def changed_groups(layer):
    optimizer = torch.optim.SGD([layer.weight], lr=0.1)
    optimizer.add_param_group({"params": [layer.bias], "lr": 0.1})
    for group in optimizer.param_groups:
        group["lr"] *= 0.1
    return optimizer


k["add_param_group and param_groups"] = trained(changed_groups)


def averaged(**options):
    layer = filled(nn.Linear(3, 1))
    average = swa_utils.AveragedModel(layer, **options)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        F.mse_loss(layer(matrix()), torch.ones(2, 1)).backward()
        optimizer.step()
        average.update_parameters(layer)
    return average(matrix())


k["AveragedModel"] = averaged()
k["AveragedModel as an EMA"] = averaged(avg_fn=swa_utils.get_ema_avg_fn(0.9))

# Modules.
k["modules"] = tensor(sum(isinstance(m, nn.Linear) for m in net().modules()))
k["named_modules"] = tensor(len(dict(net().named_modules())["2"].weight))
k["children"] = tensor(len(list(net().children())))
k["buffers"] = torch.stack([b.sum() for b in nn.BatchNorm1d(3).buffers() if b.dtype == torch.float])
k["named_buffers"] = tensor([name == "running_mean" for name, _ in nn.BatchNorm1d(3).named_buffers()])


def initialized(m):
    if isinstance(m, nn.Linear):
        nn.init.constant_(m.weight, 0.5)
        nn.init.zeros_(m.bias)


model = net()
model.apply(initialized)
k["apply"] = model(matrix()).detach()
model = net()
kept = {}
handle = model[0].register_forward_hook(lambda module, input, output: kept.update(features=output.detach()))
model(matrix())
handle.remove()
model(other())
k["forward hook"] = kept["features"]
model = net()
model.requires_grad_(False)
model[2].requires_grad_()
model(matrix()).sum().backward()
k["frozen body"] = tensor([p.grad is not None for p in model.parameters()])
model = net()
for p in model[0].parameters():
    p.requires_grad = False
k["parameters that are trained"] = tensor(sum(p.numel() for p in model.parameters() if p.requires_grad))
k["device of a module"] = tensor(next(net().parameters()).device.type == "cpu")

# State dicts.
state = filled(nn.Linear(3, 2)).state_dict()
k["state of a key"] = state["bias"]
state["bias"] = torch.zeros(2)
layer = nn.Linear(3, 2)
layer.load_state_dict(state)
k["state changed by key"] = layer(matrix()).detach()
del state["bias"]
k["state without a key"] = tensor(["bias" in state, "weight" in state])
old = {"module." + key: value for key, value in filled(nn.Linear(3, 2)).state_dict().items()}
new = {}
for key, value in old.items():
    new[key[7:]] = value
layer.load_state_dict(new)
k["state of other names"] = layer.weight.detach().clone()

# Options by their names and places.
index = tensor([[0, 2], [1, 1]])
k["Embedding.from_pretrained"] = nn.Embedding.from_pretrained(positive().t().contiguous())(index)
k["padding_idx"] = nn.Embedding(3, 2, padding_idx=1)(tensor([1]))
k["max_norm"] = nn.Embedding.from_pretrained(positive().t().contiguous(), max_norm=1.0)(index)
k["reduction by name"] = F.mse_loss(matrix(), other(), reduction="sum")
k["loss with a reduction by name"] = nn.L1Loss(reduction="none")(matrix(), other())
k["kl_div by the batch"] = F.kl_div(matrix().log_softmax(1), other().softmax(1), reduction="batchmean")
target = tensor([2, 0])
k["ignore_index and reduction"] = F.cross_entropy(matrix(), target, ignore_index=0, reduction="sum")
k["CrossEntropyLoss with ignore_index"] = nn.CrossEntropyLoss(ignore_index=2)(matrix(), target)
g = nn.init.calculate_gain
k["calculate_gain"] = tensor([g("linear"), g("tanh"), g("relu"), g("leaky_relu", 0.2), g("selu")])
weight = torch.zeros(64, 32, 3, 3)
nn.init.kaiming_uniform_(weight, mode="fan_out", nonlinearity="relu")
k["kaiming_uniform_ of a fan"] = (weight.abs().max() * 100).round()
k["Linear without a bias"] = filled(nn.Linear(3, 2, False))(matrix()).detach()
k["Conv2d by position"] = filled(nn.Conv2d(2, 3, 3, 1, 1))(image()).detach()
k["ConvTranspose2d by position"] = filled(nn.ConvTranspose2d(2, 3, 4, 2, 1))(image()).detach()
k["padding by name"] = filled(nn.Conv2d(2, 3, 3, padding="same", padding_mode="reflect"))(image()).detach()
k["MaxPool2d by position"] = nn.MaxPool2d(2, 2)(image())
k["AvgPool2d by position"] = nn.AvgPool2d(3, 2)(image())
k["ReLU in place"] = nn.ReLU(True)(matrix())
k["GELU by name"] = nn.GELU("tanh")(matrix())
k["gelu by name"] = F.gelu(matrix(), approximate="tanh")
k["interpolate by name"] = F.interpolate(image(), scale_factor=2, mode="bilinear")
k["pad by name"] = F.pad(image(), (1, 1, 2, 0), mode="reflect")
k["RNN by name"] = filled(nn.RNN(3, 2, nonlinearity="relu", batch_first=True))(matrix().unsqueeze(0))[0].detach()
k["EmbeddingBag by name"] = filled(nn.EmbeddingBag(4, 3, mode="sum"))(index).detach()

# Data. (Flips as torch.flip has them.)
k["vertical flip"] = torch.flip(image()[0], (1,))
k["rotation by a quarter"] = torch.rot90(image()[0], 1, (1, 2))
k["image and mask"] = torch.cat([image()[0] * 2, image()[0] + 1])
k["loader options"] = tensor([4, 4])

save_file({name: value.detach().clone().contiguous() for name, value in k.items()},
          pathlib.Path(__file__).parent / "training_idioms.safetensors")
print(len(k), "idioms with PyTorch", torch.__version__)
