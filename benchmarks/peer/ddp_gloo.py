#!/usr/bin/env python3
"""Training by PyTorch's DistributedDataParallel over gloo: one process for each device, one thread each.

    ddp_gloo.py CASE [--devices N]       CASE: mlp_parallel resnet_parallel gpt_parallel lstm_parallel

The batch is that of one device, divided. Prints one JSON object a line, as the other benchmark programs do. BENCH_SECONDS
bounds the measurement.
"""
import argparse
import json
import math
import os
import socket
import statistics
import time

for handicap in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(handicap, None)

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity() if inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


def resnet18():
    layers, inputs = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for outputs in (64, 128, 256, 512):
        layers += [Residual(inputs, outputs, 1 if inputs == outputs else 2), Residual(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.attn_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.c_attn(self.ln_1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn_proj(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, vocabulary=4096, length=128, width=256, heads=4, depth=4):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*[Layer(width, heads) for _ in range(depth)])
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        return self.head(self.ln_f(self.layers(x))).flatten(0, 1)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(128, 256, num_layers=2, batch_first=True), nn.Linear(256, 10)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)


# Of each case: the net, the inputs and the targets of so many rows, rows in all, and the optimizer.
CASES = {
    "mlp_parallel": (lambda: nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)),
                     lambda rows: torch.randn(rows, 784), lambda rows: torch.randint(0, 10, (rows,)), 256, sgd),
    "resnet_parallel": (resnet18, lambda rows: torch.randn(rows, 3, 32, 32), lambda rows: torch.randint(0, 10, (rows,)),
                        64, sgd),
    "gpt_parallel": (Gpt, lambda rows: torch.randint(0, 4096, (rows, 128)), lambda rows: torch.randint(0, 4096, (rows * 128,)),
                     8, lambda parameters: torch.optim.AdamW(parameters, lr=3e-4)),
    "lstm_parallel": (Lstm, lambda rows: torch.randn(rows, 64, 128), lambda rows: torch.randint(0, 10, (rows,)), 32,
                      lambda parameters: torch.optim.Adam(parameters, lr=1e-3)),
}
WARM_UP = 3


def work(rank, devices, case, port, seconds, queue):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    make, inputs, targets, rows, optimizer_of = CASES[case]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=devices)
    net = nn.parallel.DistributedDataParallel(make())
    optimizer = optimizer_of(net.parameters())
    x, y = inputs(rows // devices), targets(rows // devices)

    def step():
        start = time.perf_counter()
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
        return (time.perf_counter() - start) * 1e6

    for _ in range(WARM_UP):
        once = step()
    count = torch.tensor(max(5, math.ceil(seconds * 1e6 / once)))
    dist.broadcast(count, 0)
    times = []
    for _ in range(int(count)):
        dist.barrier()
        times.append(step())
    if rank == 0:
        queue.put(statistics.median(times))
    dist.destroy_process_group()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--devices", type=int, default=2)
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    queue, port = context.Queue(), free_port()
    seconds = float(os.environ.get("BENCH_SECONDS", 2))
    processes = [context.Process(target=work, args=(rank, arguments.devices, arguments.case, port, seconds, queue))
                 for rank in range(arguments.devices)]
    for process in processes:
        process.start()
    print(json.dumps({"name": f"{arguments.case}/step", "med_us": queue.get()}), flush=True)
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
