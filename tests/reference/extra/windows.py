#!/usr/bin/env python3
"""Makes windows.json and windows.safetensors beside this file: cases in the form of ../ops.json, by PyTorch, of
interpolation, padding, windows as columns, pooling and what else works on images.

Run it where torch is installed.
"""
import torch.nn.functional as F

import cases
from cases import normal, write


def case(op, name, inputs, function=None, **args):
    cases.case(op, function or getattr(F, op), inputs, name, **args)


def interpolation():
    line, image, volume = (2, 3, 5), (2, 3, 4, 5), (1, 2, 3, 4, 3)
    for mode in ("nearest", "nearest-exact", "area"):
        case("interpolate", f"{mode}_line", [normal(*line)], size=7, mode=mode)
        case("interpolate", f"{mode}_image", [normal(*image)], size=[7, 3], mode=mode)
        case("interpolate", f"{mode}_volume", [normal(*volume)], size=[2, 7, 5], mode=mode)
        case("interpolate", f"{mode}_scaled", [normal(*image)], scale_factor=[1.7, 0.6], mode=mode)
    for mode, sizes, size in (("linear", line, [7]), ("bilinear", image, [7, 3]), ("trilinear", volume, [2, 7, 5]),
                              ("bicubic", image, [7, 3])):
        for corners in (False, True):
            end = "_corners" if corners else ""
            case("interpolate", mode + end, [normal(*sizes)], size=size, mode=mode, align_corners=corners)
            case("interpolate", mode + "_scaled" + end, [normal(*sizes)], scale_factor=1.7, mode=mode,
                 align_corners=corners)
        case("interpolate", mode + "_smaller", [normal(*sizes)], scale_factor=0.55, mode=mode, align_corners=False,
             recompute_scale_factor=True)
        case("interpolate", mode + "_one", [normal(*sizes)], size=[1] * len(size), mode=mode, align_corners=True)


def padding():
    image = (2, 3, 4, 5)
    for mode in ("reflect", "replicate", "circular"):
        case("pad", f"{mode}_line", [normal(2, 3, 5)], pad=[3, 2], mode=mode)
        case("pad", mode, [normal(*image)], pad=[2, 4, 3, 1], mode=mode)
        case("pad", f"{mode}_volume", [normal(1, 2, 3, 4, 3)], pad=[1, 2, 0, 3, 2, 1], mode=mode)
        case("pad", f"{mode}_cut", [normal(*image)], pad=[-1, 2, 1, -2], mode=mode)
    case("pad", "cut", [normal(*image)], pad=[-1, 2, 1, -2], mode="constant", value=1.5)


def columns():
    case("unfold", "plain", [normal(2, 3, 5, 6)], kernel_size=[2, 3])
    case("unfold", "strided", [normal(2, 3, 7, 6)], kernel_size=3, dilation=[2, 1], padding=[1, 2], stride=[2, 3])
    case("unfold", "one_image", [normal(3, 5, 6)], kernel_size=2, stride=2)
    case("fold", "plain", [normal(2, 3 * 6, 16)], output_size=[5, 6], kernel_size=[2, 3])
    case("fold", "strided", [normal(2, 2 * 9, 3 * 3)], output_size=[7, 6], kernel_size=3, dilation=[2, 1],
         padding=[1, 2], stride=[2, 3])
    case("fold", "one_image", [normal(3 * 4, 6)], output_size=[4, 6], kernel_size=2, stride=2)


def channels():
    case("pixel_shuffle", "images", [normal(2, 8, 3, 2)], upscale_factor=2)
    case("pixel_shuffle", "batches", [normal(2, 1, 9, 2, 2)], upscale_factor=3)
    case("pixel_unshuffle", "images", [normal(2, 2, 4, 6)], downscale_factor=2)
    case("channel_shuffle", "images", [normal(2, 6, 3, 2)], groups=3)
    case("channel_shuffle", "line", [normal(2, 6, 3)], groups=2)
    for size in (2, 3, 5, 12):
        case("local_response_norm", f"size_{size}", [normal(2, 7, 3, 4) * 3], size=size, alpha=0.3, beta=0.6, k=1.5)
    case("local_response_norm", "line", [normal(2, 5, 3)], size=3, alpha=1e-4, beta=0.75, k=1.0)
    case("local_response_norm", "volume", [normal(2, 5, 2, 3, 2)], size=4, alpha=1.0, beta=0.75, k=2.0)


def pooling():
    for dims, sizes in ((1, (2, 3, 11)), (2, (2, 3, 7, 8)), (3, (1, 2, 5, 6, 4))):
        args = dict(kernel_size=3, stride=2, padding=1, ceil_mode=True)
        case(f"max_pool{dims}d", "ceil", [normal(*sizes)], dilation=1, **args)
        case(f"avg_pool{dims}d", "ceil", [normal(*sizes)], count_include_pad=False, **args)
        case(f"lp_pool{dims}d", "norm_2", [normal(*sizes)], norm_type=2.0, kernel_size=2, stride=2, ceil_mode=False)
        case(f"adaptive_avg_pool{dims}d", "3", [normal(*sizes)], output_size=[3] * dims)
        case(f"adaptive_max_pool{dims}d", "3", [normal(*sizes)], output_size=[3] * dims)
        pooled, indices = getattr(F, f"max_pool{dims}d")(normal(*sizes), 2, return_indices=True)
        case(f"max_unpool{dims}d", "halves", [pooled, indices], kernel_size=2, stride=2, padding=0,
             output_size=list(sizes[2:]))


interpolation()
padding()
columns()
channels()
pooling()
write("windows")
