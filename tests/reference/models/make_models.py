"""Writes the files of this folder with PyTorch and safetensors; scripts/make-reference runs it. See README.md.

For each model: NAME.pt and NAME.safetensors, its state dict, and NAME.case.safetensors, what it computes.
Computed in float64 from float32 weights and inputs, stored as float32.
"""

import pathlib

import safetensors.torch
import torch
from torch import nn
from torch.nn import functional as F

folder = pathlib.Path(__file__).parent


class LeNet(nn.Module):
    def __init__(self, image_size=16, classes=10):
        super().__init__()
        after = ((image_size - 4) // 2 - 4) // 2
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * after * after, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, images):
        x = F.max_pool2d(F.relu(self.conv1(images)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class BasicBlock(nn.Module):
    def __init__(self, inside, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.downsample = None
        if stride != 1 or inside != out:
            self.downsample = nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (self.downsample(x) if self.downsample else x))


class ResNet18(nn.Module):
    """torchvision's names; the stem is the one for small images."""

    def __init__(self, classes=10, width=64):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        for i in range(4):
            inside, out = width * 2 ** max(i - 1, 0), width * 2**i
            blocks = BasicBlock(inside, out, 1 if i == 0 else 2), BasicBlock(out, out, 1)
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(8 * width, classes)

    def forward(self, images):
        x = F.relu(self.bn1(self.conv1(images)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x):
        batch, length, width = x.shape
        split = self.c_attn(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*split, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(batch, length, width))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = FeedForward(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """GPT-2's structure and names; the weights of linear layers lie as nn.Linear keeps them."""

    def __init__(self, vocabulary, length, width, heads, layers):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(length, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class LstmClassifier(nn.Module):
    def __init__(self, features, hidden, classes, layers):
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class SelfAttention(nn.MultiheadAttention):
    def forward(self, query, key, value):
        return super().forward(query, key, value)  # with the weights, averaged over heads


def make(name, model, *inputs):
    generator = torch.Generator().manual_seed(len(name))
    with torch.no_grad():
        for tensor in model.parameters():  # also those that begin as ones and zeros
            tensor.add_(0.1 * torch.randn(tensor.shape, generator=generator))
    state = model.state_dict()
    torch.save(state, folder / f"{name}.pt")
    safetensors.torch.save_file({key: value.contiguous() for key, value in state.items()}, folder / f"{name}.safetensors")

    model = model.double().train()
    case = {f"input.{i}": value.clone() for i, value in enumerate(inputs)}
    inputs = [value.double().requires_grad_() if value.is_floating_point() else value for value in inputs]
    outputs = model(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    seeds = [torch.randn(output.shape, generator=generator) for output in outputs]
    torch.autograd.backward(outputs, [seed.double() for seed in seeds])
    for i, (output, seed) in enumerate(zip(outputs, seeds)):
        case |= {f"output.{i}": output.detach(), f"seed.{i}": seed}
    case |= {f"grad.input.{i}": value.grad for i, value in enumerate(inputs) if value.requires_grad}
    case |= {f"grad.{key}": value.grad for key, value in model.named_parameters()}
    case |= {f"after.{key}": value for key, value in model.named_buffers()}
    with torch.no_grad():
        outputs = model.eval()(*inputs)
    case["eval.0"] = outputs[0] if isinstance(outputs, tuple) else outputs
    case = {key: value.float() if value.is_floating_point() else value for key, value in case.items()}
    safetensors.torch.save_file({key: value.contiguous() for key, value in case.items()}, folder / f"{name}.case.safetensors")
    print(name, {path.suffix: path.stat().st_size for path in folder.glob(f"{name}.*")})


torch.manual_seed(20)
make("lenet", LeNet(), torch.rand(2, 1, 16, 16))
make("resnet18", ResNet18(width=2), torch.rand(3, 3, 16, 16))
make("gpt", Gpt(16, 8, 16, 2, 2), torch.randint(0, 16, (2, 8)))
make("lstm_classifier", LstmClassifier(3, 8, 4, 2), torch.randn(2, 5, 3))
make("gru", nn.GRU(3, 6, 2, batch_first=True, bidirectional=True), torch.randn(2, 5, 3))
attention = SelfAttention(8, 2, batch_first=True)
make("multihead_attention", attention, *(torch.randn(2, length, 8) for length in (3, 4, 4)))
layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
make("transformer_encoder_layer", layer, torch.randn(2, 5, 8))
