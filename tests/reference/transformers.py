#!/usr/bin/env python3
# Makes transformers.safetensors: what PyTorch's attention layers hold, are given, give, and their gradients.
#   python3 tests/reference/transformers.py        (needs torch and safetensors)
import os

import torch
from safetensors.torch import save_file
from torch import nn

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
tensors = {}


def case(name, layer, inputs, call):
    for parameter in layer.parameters():  # no zeros and ones: they would hide mistakes
        parameter.data.add_(torch.randn_like(parameter) * 0.2)
    inputs = [x.requires_grad_() for x in inputs]
    outputs = call(layer, *inputs)
    seeds = [torch.randn_like(y) for y in outputs]
    torch.autograd.backward(outputs, seeds)
    for key, value in layer.state_dict().items():
        tensors[f"{name}/state/{key}"] = value
    for key, parameter in layer.named_parameters():
        tensors[f"{name}/gradient/{key}"] = parameter.grad
    for kind, values in ("in", inputs), ("out", outputs), ("seed", seeds), ("in_gradient", [x.grad for x in inputs]):
        for i, value in enumerate(values):
            tensors[f"{name}/{kind}{i}"] = value.detach()


causal = torch.ones(3, 3).triu(1).bool()
padding = torch.tensor([[False, False, True], [False, False, False]])
case("self", nn.MultiheadAttention(6, 2, batch_first=True), [torch.randn(2, 3, 6)],
     lambda layer, x: layer(x, x, x, attn_mask=causal, key_padding_mask=padding))
case("cross", nn.MultiheadAttention(6, 3, kdim=5, vdim=4, add_bias_kv=True, add_zero_attn=True),
     [torch.randn(2, 2, 6), torch.randn(3, 2, 5), torch.randn(3, 2, 4)],
     lambda layer, q, k, v: layer(q, k, v, key_padding_mask=padding, need_weights=False)[:1])
case("memory", nn.MultiheadAttention(6, 2, batch_first=True), [torch.randn(2, 2, 6), torch.randn(2, 3, 6)],
     lambda layer, q, k: layer(q, k, k, average_attn_weights=False))
case("decoder", nn.TransformerDecoderLayer(8, 2, 12, dropout=0, activation="gelu", batch_first=True, norm_first=True),
     [torch.randn(2, 3, 8), torch.randn(2, 3, 8)],
     lambda layer, x, memory: [layer(x, memory, tgt_mask=causal, memory_key_padding_mask=padding)])
case("transformer", nn.Transformer(8, 2, 2, 2, 12, dropout=0), [torch.randn(4, 2, 8), torch.randn(3, 2, 8)],
     lambda layer, source, target: [layer(source, target, tgt_mask=causal)])
save_file({key: value.contiguous() for key, value in tensors.items()},
          os.path.join(os.path.dirname(os.path.abspath(__file__)), "transformers.safetensors"))
