#!/usr/bin/env python3
"""Makes structure.json and structure.safetensors beside this file: order, places and views, in the form of ../ops.json,
by PyTorch.

Run it where torch is installed.
"""
import math

import torch

from cases import case, normal, uniform, write


def elementwise():
    case("fmod", torch.fmod, [normal(3, 7) * 3, normal(7).abs() + 0.5])
    case("fmod", torch.fmod, [normal(3, 7) * 3, -(normal(3, 1).abs() + 0.5)], name="negative")
    for op in ("addcmul", "addcdiv"):
        case(op, getattr(torch, op), [normal(3, 4), normal(4), uniform(3, 1, low=0.5, high=2.0)], value=-0.5)
        case(op, getattr(torch, op), [normal(3), normal(2, 1), uniform(2, 3, low=0.5, high=2.0)], name="grows", value=2.0)
    far = torch.tensor([[1.0, math.nan, -2.0], [math.inf, -math.inf, 0.5]])
    case("nan_to_num", torch.nan_to_num, [far], nan=3.0, posinf=20.0, neginf=-30.0)


def order():
    case("cumprod", torch.cumprod, [normal(3, 4)], dim=-1)
    case("cumprod", torch.cumprod, [normal(3, 4, 2)], name="middle", dim=1)
    zeros = normal(3, 6)
    zeros[0, 2] = zeros[1, 0] = zeros[1, 5] = zeros[2, 1] = zeros[2, 2] = 0
    case("cumprod", torch.cumprod, [zeros], name="zeros", dim=1)
    case("cumprod", torch.cumprod, [normal()], name="number", dim=0)
    case("diff", torch.diff, [normal(3, 6)], n=1, dim=-1)
    case("diff", torch.diff, [normal(5, 3)], name="twice", n=2, dim=0)
    case("diff", lambda x, a, b, **args: torch.diff(x, prepend=a, append=b, **args), [normal(2, 3), normal(2, 1), normal(2, 2)],
         name="joined", n=3, dim=1)
    for k, dim, keepdim in ((1, -1, False), (3, 0, True), (4, 1, False)):
        case("kthvalue", lambda x, **args: torch.kthvalue(x, **args).values, [normal(4, 5)], name=f"{k}", k=k, dim=dim,
             keepdim=keepdim)

    def quantile(x, q, **args):
        return torch.quantile(x, torch.tensor(q, dtype=x.dtype) if isinstance(q, list) else q, **args)

    for interpolation in ("linear", "lower", "higher", "nearest", "midpoint"):
        case("quantile", quantile, [normal(4, 6)], name=interpolation, q=0.375, dim=1, keepdim=False,
             interpolation=interpolation)
    case("quantile", quantile, [normal(4, 6)], name="all", q=0.625, dim=None, keepdim=False, interpolation="linear")
    case("quantile", quantile, [normal(4, 6)], name="all_kept", q=0.25, dim=None, keepdim=True, interpolation="linear")
    case("quantile", quantile, [normal(4, 6, 2)], name="several", q=[0.0, 0.375, 1.0], dim=0, keepdim=False,
         interpolation="linear")
    case("quantile", quantile, [normal(4, 5)], name="several_kept", q=[0.5, 0.125], dim=-2, keepdim=True,
         interpolation="midpoint")
    case("quantile", quantile, [normal()], name="number", q=0.25, dim=0, keepdim=True, interpolation="linear")

    def of_both(function):
        def joined(x, **args):
            first, mean = function(x, **args)
            return first + 2 * mean

        return joined

    for op in ("var_mean", "std_mean"):
        case(op, of_both(getattr(torch, op)), [normal(3, 4)], dim=[1], correction=0, keepdim=True)
        case(op, of_both(getattr(torch, op)), [normal(3, 4)], name="all", dim=[0, 1], correction=1, keepdim=False)


def places():
    case("mv", torch.mv, [normal(3, 4), normal(4)])

    def index_copy(x, index, source, dim):
        return torch.index_copy(x, dim, index, source)

    def index_fill(x, index, value, dim):
        return torch.index_fill(x, dim, index, value)

    def index_fill_number(x, index, dim, value):
        return torch.index_fill(x, dim, index, value)

    case("index_copy", index_copy, [normal(4, 3), torch.tensor([3, 0]), normal(2, 3)], dim=0)
    case("index_copy", index_copy, [normal(2, 4, 3), torch.tensor([2, 1, 3]), normal(2, 3, 3)], name="middle", dim=-2)
    case("index_fill", index_fill, [normal(4, 3), torch.tensor([3, 0, 3]), normal()], dim=0)
    case("index_fill_number", index_fill_number, [normal(2, 3), torch.tensor([-1, 0])], dim=1, value=1.5)

    def split(x, parts, dim):
        return torch.cat([(i + 1) * part for i, part in enumerate(torch.tensor_split(x, parts, dim))], dim)

    case("tensor_split", split, [normal(7, 2)], parts=3, dim=0)
    case("tensor_split", split, [normal(2, 7)], name="more_than_there_are", parts=9, dim=1)
    case("tensor_split", split, [normal(2, 7)], name="places", parts=[2, 2, -3, 10], dim=-1)
    case("tensor_split", split, [normal(7)], name="overlapping", parts=[5, 2], dim=0)
    case("unflatten", torch.unflatten, [normal(2, 6)], dim=-1, sizes=[3, -1])
    for size, step in ((3, 1), (3, 2), (2, 3), (1, 1), (7, 4), (0, 3)):
        case("tensor_unfold", torch.Tensor.unfold, [normal(2, 7, 2)], name=f"{size}_{step}", dimension=1, size=size, step=step)
    case("tensor_unfold", torch.Tensor.unfold, [normal()], name="number", dimension=0, size=1, step=2)


elementwise()
order()
places()
write("structure")
