#!/usr/bin/env python3
"""Makes grid_sample.json and grid_sample.safetensors beside this file, in the form of ../ops.json, by PyTorch.

Run it where torch is installed.
"""
import torch
import torch.nn.functional as F

from cases import case, normal, uniform, write

for padding in ("zeros", "border", "reflection"):
    for align in (False, True):
        name = f"{padding}_{'corners' if align else 'edges'}"
        for mode in ("bilinear", "nearest", "bicubic"):
            case("grid_sample", F.grid_sample, [normal(2, 2, 4, 5), uniform(2, 3, 3, 2, low=-1.7, high=1.7)],
                 name=f"{mode}_{name}", mode=mode, padding_mode=padding, align_corners=align)
        for mode in ("bilinear", "nearest"):
            case("grid_sample", F.grid_sample, [normal(1, 2, 3, 4, 2), uniform(1, 2, 2, 3, 3, low=-1.5, high=1.5)],
                 name=f"volume_{mode}_{name}", mode=mode, padding_mode=padding, align_corners=align)
    case("grid_sample", F.grid_sample, [normal(1, 1, 1, 3), uniform(1, 2, 4, 2, low=-3.0, high=3.0)],
         name=f"flat_{padding}", mode="bilinear", padding_mode=padding, align_corners=True)
corners = torch.tensor([[[[-1.0, -1.0], [1.0, 1.0], [0.0, 1.0]]]])
for padding in ("zeros", "border", "reflection"):
    case("grid_sample", F.grid_sample, [normal(1, 1, 3, 3), corners], name=f"corners_{padding}", mode="bilinear",
         padding_mode=padding, align_corners=True)
case("grid_sample", F.grid_sample, [normal(1, 2, 3, 4, 2), uniform(1, 2, 2, 3, 3, low=-1.5, high=1.5)],
     name="volume_bicubic", mode="bicubic", padding_mode="reflection", align_corners=False)
write("grid_sample")
