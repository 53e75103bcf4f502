"""Training steps of PyTorch on BENCH_DEVICE, a GPU: eager, compiled by torch.compile, and captured as a CUDA graph.
  steps.py CASE        mlp, resnet, gpt_sdpa, gpt2; or one of these with autocast, such as gpt2_bfloat16
Prints what benchmarks/harness.h prints, under the names CASE/step, CASE/compiled_step and CASE/captured_step. The models
are those of benchmarks/models.h. The optimizers are fused, which is PyTorch's fastest choice."""
import json
import os
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

DEVICE = os.environ.get("BENCH_DEVICE", "cuda:0")
SECONDS = float(os.environ.get("BENCH_SECONDS", "2"))


def time_calls(calls, function):
    """Microseconds of a call."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        function()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e6 / calls


def run(name, function):
    time_calls(3, function)
    calls = 1
    while time_calls(calls, function) * calls < 2000:
        calls *= 2
    samples, spent = [], 0
    while spent < 1e6 * SECONDS or len(samples) < 5:
        samples.append(time_calls(calls, function))
        spent += samples[-1] * calls
    print(json.dumps({"name": name, "med_us": statistics.median(samples), "min_us": min(samples), "samples": len(samples),
                      "calls": calls}), flush=True)


def mlp():
    net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
    return net, torch.randn(256, 784), torch.randint(0, 10, (256,))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = nn.Identity() if inputs == outputs and stride == 1 else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.downsample(x))


def resnet():
    layers, inputs = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for outputs in (64, 128, 256, 512):
        layers += [Block(inputs, outputs, 1 if outputs == 64 else 2), Block(outputs, outputs, 1)]
        inputs = outputs
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    return net, torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.attn_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.mlp_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.c_attn(self.ln_1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind()
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
        x = x + self.attn_proj(y)
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary, length, width, heads, layers):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("positions", torch.arange(length))

    def forward(self, tokens):
        return self.head(self.ln_f(self.layers(self.wte(tokens) + self.wpe(self.positions)))).flatten(0, 1)


def gpt(vocabulary, length, width, heads, layers):
    return (Gpt(vocabulary, length, width, heads, layers), torch.randint(0, vocabulary, (8, length)),
            torch.randint(0, vocabulary, (8 * length,)))


CASES = {"mlp": mlp, "resnet": resnet, "gpt_sdpa": lambda: gpt(4096, 128, 256, 4, 4),
         "gpt2": lambda: gpt(50304, 1024, 768, 12, 12)}


def step_of(case, forward=lambda net: net):
    """A training step of a new net; `forward` may compile the net."""
    name = case.removesuffix("_bfloat16")
    net, x, target = CASES[name]()
    net, x, target = net.to(DEVICE), x.to(DEVICE), target.to(DEVICE)
    if "gpt" in name:
        optimizer = torch.optim.AdamW(net.parameters(), 3e-4, fused=True, capturable=True)
    else:
        optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9, fused=True)
    called = forward(net)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=case.endswith("_bfloat16")):
            loss = F.cross_entropy(called(x), target)
        loss.backward()
        optimizer.step()
    return step


def captured(step):
    """The step as a CUDA graph: https://docs.pytorch.org/docs/stable/notes/cuda.html, Whole-network capture."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def main(case):
    torch.manual_seed(0)
    run(f"{case}/step", step_of(case))
    run(f"{case}/captured_step", captured(step_of(case)))
    run(f"{case}/compiled_step", step_of(case, torch.compile))


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].removesuffix("_bfloat16") not in CASES:
        sys.exit(__doc__)
    main(sys.argv[1])
