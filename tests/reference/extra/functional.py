#!/usr/bin/env python3
"""Makes functional.json and functional.safetensors beside this file: cases in the form of ../ops.json, by PyTorch.

Run it where torch is installed.
"""
import torch
import torch.nn.functional as F

from cases import case, classes, normal, random, signs, uniform, write


def activations():
    # (The slope of F.hardsigmoid itself is 1 / 6 in float32, in float64 too.)
    case("hardsigmoid", lambda x: F.relu6(x + 3) / 6, [normal(3, 7) * 4])
    for op in ("relu6", "softsign", "tanhshrink"):
        case(op, getattr(F, op), [normal(3, 7) * 4])
    case("logsigmoid", F.logsigmoid, [normal(3, 7) * 20])
    case("celu", F.celu, [normal(3, 7) * 2], alpha=1.5)
    case("hardshrink", F.hardshrink, [normal(3, 7)], lambd=0.6)
    case("softshrink", F.softshrink, [normal(3, 7)], lambd=0.4)
    case("threshold", F.threshold, [normal(3, 7)], threshold=0.1, value=20.0)
    case("glu", F.glu, [normal(4, 6)], dim=0)
    case("prelu", F.prelu, [normal(3, 4, 5), normal(4)])
    case("prelu", F.prelu, [normal(3, 4), normal(1)], name="one_weight")
    case("rrelu", F.rrelu, [normal(3, 7)], lower=0.1, upper=0.4)
    case("softmin", F.softmin, [normal(3, 7)], dim=1)


def losses():
    case("margin_ranking_loss", F.margin_ranking_loss, [normal(9), normal(9), signs(9)], constant=(2,), margin=0.3,
         reduction="mean")
    case("cosine_embedding_loss", F.cosine_embedding_loss, [normal(6, 4), normal(6, 4), signs(6)], constant=(2,),
         margin=-0.2, reduction="none")
    case("hinge_embedding_loss", F.hinge_embedding_loss, [normal(9), signs(9)], constant=(1,), margin=1.2,
         reduction="sum")
    for swap in (False, True):
        case("triplet_margin_loss", F.triplet_margin_loss, [normal(5, 4), normal(5, 4), normal(5, 4)],
             name=f"swap_{swap}".lower(), margin=1.5, p=2.0 if swap else 3.0, swap=swap, reduction="mean")
    case("multi_margin_loss", F.multi_margin_loss, [normal(6, 4), classes(6, count=4)], p=1, margin=1.0,
         reduction="mean")
    case("multi_margin_loss", lambda x, t, w, **args: F.multi_margin_loss(x, t, weight=w, **args),
         [normal(6, 4), classes(6, count=4), uniform(4, low=0.5)], constant=(2,), name="weighted", p=2, margin=0.7,
         reduction="none")
    labels = torch.tensor([[3, 0, -1, 1], [-1, 2, 3, 0], [0, 1, 2, 3]])
    case("multilabel_margin_loss", F.multilabel_margin_loss, [normal(3, 4), labels], reduction="none")
    case("multilabel_margin_loss", F.multilabel_margin_loss, [normal(4), labels[0].clone()], name="one_row",
         reduction="mean")
    case("soft_margin_loss", F.soft_margin_loss, [normal(3, 4) * 5, signs(3, 4)], constant=(1,), reduction="sum")
    case("multilabel_soft_margin_loss", lambda x, t, w, **args: F.multilabel_soft_margin_loss(x, t, w, **args),
         [normal(3, 4), (signs(3, 4) + 1) / 2, uniform(4, low=0.5)], constant=(1, 2), reduction="none")
    for log_input in (False, True):
        case("poisson_nll_loss", F.poisson_nll_loss, [uniform(8, low=0.5, high=3.0), classes(8, count=6).float()],
             constant=(1,), name=f"log_{log_input}".lower(), log_input=log_input, full=log_input, reduction="mean")
    for last in (4, 1):
        case("gaussian_nll_loss", F.gaussian_nll_loss, [normal(3, 4), normal(3, 4), uniform(3, last)],
             name=f"variance_{last}", full=last == 1, eps=0.3, reduction="sum")


def distances():
    case("cosine_similarity", F.cosine_similarity, [normal(3, 4, 2), normal(3, 4, 2)], dim=1)
    case("normalize", F.normalize, [normal(3, 4)], p=2.0, dim=1)
    case("normalize", F.normalize, [normal(3, 4)], name="p3", p=3.0, dim=0)
    case("pairwise_distance", F.pairwise_distance, [normal(3, 4), normal(3, 4)], p=2.0, keepdim=True)
    for p in (1.0, 2.0, 3.0):
        case("cdist", lambda a, b, infinite, p: torch.cdist(a, b, p=p), [normal(2, 3, 4), normal(2, 5, 4)],
             name=f"p{p:g}", infinite=False, p=p)
    case("cdist", lambda a, b, infinite: torch.cdist(a, b, p=float("inf")), [normal(3, 4), normal(5, 4)],
         name="infinite", infinite=True)


def products():
    def rms_norm(x, *weight, **args):
        return F.rms_norm(x, weight=weight[0] if weight else None, **args)

    case("rms_norm", rms_norm, [normal(3, 4, 5), normal(4, 5)], normalized_shape=[4, 5], eps=1e-3)
    case("rms_norm", rms_norm, [normal(3, 7)], name="plain", normalized_shape=[7], eps=1e-5)
    for name, equation, sizes in (
        ("batch_matmul", "bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("implied", "ba,cb", [(3, 4), (5, 3)]),
        ("transpose", "ij->ji", [(3, 4)]),
        ("trace", "ii", [(4, 4)]),
        ("diagonal", "bii->bi", [(2, 4, 4)]),
        ("outer", "i,j->ij", [(3,), (4,)]),
        ("sum", "ij->", [(3, 4)]),
        ("ellipsis", "...ij,...jk->...ik", [(2, 1, 3, 4), (3, 4, 5)]),
        ("ellipsis_implied", "i...j,j...", [(3, 2, 4), (4, 2)]),
        ("ellipsis_summed", "...i->i", [(2, 3, 4)]),
        ("three", "ab,bc,cd->da", [(2, 3), (3, 4), (4, 5)]),
        ("attention", "bthd,bshd->bhts", [(2, 3, 2, 4), (2, 5, 2, 4)]),
        ("ones", "ij,ij->i", [(3, 1), (3, 4)]),
        ("spaces", " i j , j -> i ", [(3, 4), (4,)]),
    ):
        case("einsum", lambda *x, equation: torch.einsum(equation, *x), [normal(*size) for size in sizes], name=name,
             equation=equation)
    case("tensordot", torch.tensordot, [normal(2, 3, 4), normal(4, 2, 5)], dims=[[0, 2], [1, 0]])
    case("kron", torch.kron, [normal(2, 3), normal(2, 1, 2)])
    case("bilinear", F.bilinear, [normal(2, 3, 4), normal(2, 3, 5), normal(6, 4, 5), normal(6)])


def bags_and_ctc():
    def bag(weight, index, *rest, mode, weighted, padded, include_last_offset):
        rest = list(rest)
        scale = rest.pop() if weighted else None
        return F.embedding_bag(index, weight, rest[0] if rest else None, mode=mode, per_sample_weights=scale,
                               padding_idx=1 if padded else None, include_last_offset=include_last_offset)

    for mode in ("sum", "mean", "max"):
        case("embedding_bag", bag, [normal(6, 3), classes(4, 3, count=6)], name=mode, mode=mode, weighted=False,
             padded=mode != "sum", include_last_offset=False)
        case("embedding_bag", bag, [normal(6, 3), torch.tensor([5, 1, 0, 1, 1, 2, 4]), torch.tensor([0, 2, 2, 5, 7])],
             name=mode + "_offsets", mode=mode, weighted=False, padded=mode == "mean", include_last_offset=mode == "sum")
    case("embedding_bag", bag, [normal(6, 3), classes(4, 3, count=6), normal(4, 3)], name="weighted", mode="sum",
         weighted=True, padded=False, include_last_offset=False)
    case("embedding_bag", bag, [normal(6, 3), classes(7, count=6), torch.tensor([0, 2, 2, 5]), normal(7)],
         name="weighted_offsets", mode="sum", weighted=True, padded=False, include_last_offset=False)

    def ctc(logits, targets, inputs, lengths, blank, reduction, zero_infinity):
        return F.ctc_loss(F.log_softmax(logits, -1), targets, inputs, lengths, blank=blank, reduction=reduction,
                          zero_infinity=zero_infinity)

    padded = torch.tensor([[1, 1, 2, 4], [3, 2, 0, 0], [4, 4, 4, 4]])
    for reduction in ("mean", "sum", "none"):
        case("ctc_loss", ctc, [normal(9, 3, 5), padded, torch.tensor([9, 6, 8]), torch.tensor([4, 2, 3])],
             name=reduction, blank=0, reduction=reduction, zero_infinity=False)
    case("ctc_loss", ctc, [normal(9, 3, 5), torch.tensor([0, 0, 1, 3, 1, 3]), torch.tensor([9, 6, 8]),
                           torch.tensor([3, 1, 2])], name="joined", blank=2, reduction="none", zero_infinity=False)
    case("ctc_loss", ctc, [normal(6, 3, 5), padded, torch.tensor([6, 6, 6]), torch.tensor([4, 0, 4])],
         name="zero_infinity", blank=0, reduction="none", zero_infinity=True)
    case("ctc_loss", ctc, [normal(7, 5), torch.tensor([1, 2, 2]), torch.tensor(7), torch.tensor(3)], name="one",
         blank=0, reduction="mean", zero_infinity=False)


activations()
losses()
distances()
products()
bags_and_ctc()
write("functional")
