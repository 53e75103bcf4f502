"""The inputs of calls: each function gives a list of (name, tensors).

Numbers are small and coarse, so that ties and kinks are met and 16-bit types hold them. A tensor is (values, layout):
sweep_test.cpp lays the same values out in the same way.
"""

import itertools
import math

import torch

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.uint8, torch.bool)
inf, nan = math.inf, math.nan
generator = torch.Generator().manual_seed(7)
SPECIAL = [nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 0.5, -3.0, 3.0, 30000.0, -60000.0, 1e-7, -1e-7, 6.0, 2.0]
WIDE = [3e38, -3e38, 1e30, -1e30, 1e-30, -1e-30, 1e-38, 2.5, 89.0, -104.0, 20.0, 1e5]
WIDE_16 = [60000.0, -60000.0, 300.0, -300.0, 1e-5, -1e-5, 6e-8, 2.5, 11.0, -17.0, 20.0, 88.0]


def short(dtype):
    return str(dtype).removeprefix("torch.")


def draw(dtype, *sizes):
    coarse = torch.round(torch.randn(sizes, generator=generator) * 8) / 4
    if dtype == torch.bool:
        return coarse > 0
    if dtype == torch.uint8:
        return (coarse.abs() * 4).to(dtype)
    return coarse.to(dtype)


def positive(dtype, *sizes):
    return (draw(torch.float32, *sizes).abs() + 0.25).to(dtype)


def laid_out(x, layout):
    """As laid_out() of sweep_test.cpp."""
    if layout == "gaps":
        room = torch.full([2 * n + 1 for n in x.shape], 77, dtype=torch.float64).to(x.dtype)
        view = room[tuple(slice(1, None, 2) for _ in x.shape)]
        return view.copy_(x)
    if layout == "reversed":
        order = list(reversed(range(x.dim())))
        return x.permute(order).contiguous().permute(order)
    if layout == "expanded":
        return x[:1].expand(x.shape)
    return x


def one(x, layout="dense"):
    if layout == "expanded":
        x = x[:1].expand(x.shape).contiguous()
    return (x, layout)


def shapes(dtype, draw=draw):
    """Values of one dtype in all shapes and layouts."""
    name = short(dtype)
    yield f"{name} [3, 4]", one(draw(dtype, 3, 4))
    yield f"{name} [5]", one(draw(dtype, 5))
    yield f"{name} [1, 1]", one(draw(dtype, 1, 1))
    yield f"{name} 0-dim", one(draw(dtype))
    yield f"{name} [0]", one(draw(dtype, 0))
    yield f"{name} [2, 0, 3]", one(draw(dtype, 2, 0, 3))
    yield f"{name} [2, 3, 4]", one(draw(dtype, 2, 3, 4))
    yield f"{name} [3, 4] gaps", one(draw(dtype, 3, 4), "gaps")
    yield f"{name} [2, 3, 4] reversed", one(draw(dtype, 2, 3, 4), "reversed")
    yield f"{name} [4, 3] expanded", one(draw(dtype, 4, 3), "expanded")


def extremes(dtype):
    name = short(dtype)
    yield f"{name} special", one(torch.tensor(SPECIAL).to(dtype))
    yield f"{name} special [4, 4]", one(torch.tensor(SPECIAL).to(dtype).view(4, 4), "gaps")
    wide = WIDE if dtype in (torch.float32, torch.float64) else WIDE_16
    yield f"{name} wide", one(torch.tensor(wide).to(dtype))


def finite_floats():
    return [(name, (x,)) for dtype in FLOATS for name, x in shapes(dtype)]


def floats():
    return finite_floats() + [(name, (x,)) for dtype in FLOATS for name, x in extremes(dtype)]


def unary():
    return floats() + [(name, (x,)) for dtype in INTEGERS for name, x in shapes(dtype)]


def same(count, dtypes, special=True, draws=None):
    """Several tensors of one shape and dtype."""
    sets = []
    draws = draws or [draw] * count
    for dtype in dtypes:
        columns = [list(shapes(dtype, d)) for d in draws]
        sets += [(row[0][0], tuple(x for _, x in row)) for row in zip(*columns)]
    if special:
        for dtype in (torch.float32, torch.float16):
            cross = list(itertools.product([nan, inf, -inf, 0.0, -0.0, 1.0, -2.0], repeat=2))
            columns = [torch.tensor([pair[i % 2] for pair in cross]).to(dtype) for i in range(count)]
            sets.append((f"{short(dtype)} special", tuple(one(x) for x in columns)))
    return sets


def same_floats():
    return same(2, FLOATS)


def same_pairs():
    return same(2, FLOATS + (torch.int64, torch.bool))


def pairs():
    sets = same(2, FLOATS + INTEGERS)
    f = torch.float32
    broadcast = [((3, 1), (1, 4)), ((4,), (2, 3, 4)), ((), (2, 3)), ((2, 3), ()), ((0,), (1,)), ((2, 0), (1, 1)), ((1,), ())]
    for a, b in broadcast:
        sets.append((f"float32 {list(a)} and {list(b)}", (one(draw(f, *a)), one(draw(f, *b)))))
    sets.append(("float32 [3] and [4]", (one(draw(f, 3)), one(draw(f, 4)))))
    for a, b in itertools.permutations(FLOATS + INTEGERS, 2):
        sets.append((f"{short(a)} and {short(b)}", (one(draw(a, 2, 3)), one(draw(b, 3)))))
        sets.append((f"{short(a)} and 0-dim {short(b)}", (one(draw(a, 3)), one(draw(b)))))
        sets.append((f"0-dim {short(a)} and 0-dim {short(b)}", (one(draw(a)), one(draw(b)))))
    for a, b in (((1e-30, 3e38, 0.0, -0.0, 1e-30), (1e-30, 3e38, 0.0, -0.0, 0.0)), ((3e38, 1e-30, 7.5), (1e-30, 3e38, 1e-5))):
        sets.append(("float32 wide", (one(torch.tensor(a)), one(torch.tensor(b)))))
    return sets


def triples():
    return same(3, FLOATS, special=False) + [
        ("float32 broadcast", (one(draw(torch.float32, 3, 1)), one(draw(torch.float32, 4)), one(draw(torch.float32))))
    ]


def choices():
    sets = []
    for name, (y, z) in pairs():
        shape = torch.broadcast_shapes(y[0].shape, z[0].shape) if name != "float32 [3] and [4]" else (3,)
        sets.append((name, (one(draw(torch.bool, *shape)), y, z)))
    sets.append(("uint8 condition", (one(draw(torch.uint8, 3)), one(draw(torch.float32, 3)), one(draw(torch.float32, 3)))))
    sets.append(("0-dim condition", (one(draw(torch.bool)), one(draw(torch.float32, 3)), one(draw(torch.float32, 3)))))
    return sets


def prelus():
    sets = []
    for dtype in FLOATS:
        for sizes, weights in (((3, 4), 1), ((3, 4), 4), ((5,), 1), ((), 1), ((2, 3, 4), 3), ((2, 0, 3), 1), ((3, 4), 3)):
            sets.append((f"{short(dtype)} {list(sizes)} {weights}", (one(draw(dtype, *sizes)), one(draw(dtype, weights)))))
    sets.append(("float32 special", (one(torch.tensor(SPECIAL)), one(draw(torch.float32, 1)))))
    return sets


def same_triples():
    return same(3, FLOATS + INTEGERS)


def searches():
    """Numbers in order, and what to look for."""
    sets = []
    for dtype in FLOATS + INTEGERS:
        for ordered, wanted in (((6,), (2, 5)), ((3, 5), (3, 4)), ((1,), ()), ((0,), (3,)), ((5,), (0,)), ((2, 3), (3, 3))):
            sequence = draw(dtype, *ordered).sort(-1).values
            for layout in ("dense", "gaps", "reversed"):
                sets.append((f"{short(dtype)} {ordered} {wanted} {layout}", (one(sequence, layout), one(draw(dtype, *wanted), layout))))
    special = torch.tensor([nan, inf, -inf, 0.0, -0.0, 2.0])
    sets.append(("float32 special", (one(torch.tensor([-inf, -1.0, 0.0, 2.0, 2.0, inf])), one(special))))
    sets.append(("float32 with NaN", (one(torch.tensor([-1.0, 2.0, nan, nan])), one(special))))
    for a, b in ((torch.float32, torch.float64), (torch.int64, torch.float32), (torch.int32, torch.int64)):
        sets.append((f"{short(a)} and {short(b)}", (one(draw(a, 5).sort().values), one(draw(b, 4)))))
    return sets


def grids():
    """Images, or volumes, and where to read them: within, outside, and on the border."""
    def wide(dtype, *sizes):
        return draw(dtype, *sizes) * 0.8

    sets = of_shapes(((2, 3, 4, 5), (2, 3, 2, 2)), ((1, 1, 1, 3), (1, 2, 2, 2)), ((1, 2, 3, 4, 2), (1, 2, 2, 2, 3)),
                     ((0, 2, 3, 3), (0, 2, 2, 2)), ((2, 0, 3, 3), (2, 2, 2, 2)), ((1, 2, 3, 3), (1, 0, 2, 2)),
                     ((1, 2, 0, 3), (1, 1, 2, 2)), ((2, 2, 3, 3), (1, 1, 2, 2)), draws=[draw, wide])
    image = draw(torch.float32, 1, 2, 3, 3)
    border = torch.tensor([[[[-1.0, -1.0], [1.0, 1.0], [0.0, 0.0], [-1.0, 1.0], [3.0, 0.0], [1.0, -7.0]]]])
    return sets + [("border", (one(image), one(border)))]


def matrices_and_vectors():
    return of_shapes(((3, 4), (4,)), ((0, 4), (4,)), ((3, 0), (0,)), ((1, 1), (1,)), ((3, 4), (3,)), ((3, 4), (4, 1)))


def index_copies():
    sets = []
    for name, (x,) in unary():
        if x[0].dim() and not name.startswith("bool") and "expanded" not in name:
            rows = min(2, x[0].shape[0])
            index = torch.randperm(x[0].shape[0], generator=generator)[:rows]
            sets.append((name, (x, one(index), one(draw(x[0].dtype, rows, *x[0].shape[1:])))))
    x = one(draw(torch.float32, 3, 4))
    sets.append(("negative", (x, one(torch.tensor([-1])), one(draw(torch.float32, 1, 4)))))
    sets.append(("other sizes", (x, one(torch.tensor([1])), one(draw(torch.float32, 1, 3)))))
    sets.append(("0-dim", (one(draw(torch.float32)), one(torch.tensor([0])), one(draw(torch.float32, 1)))))
    return sets


def indices_1d():
    sets = [(f"{short(d)} {n}", (one(torch.randint(0, 5, (n,), generator=generator).to(d)),))
            for d in (torch.int64, torch.int32, torch.uint8) for n in (0, 1, 6)]
    return sets + [("negative", (one(torch.tensor([1, -1])),)), ("float32", (one(draw(torch.float32, 3)),))]


def index_tensors():
    sets = [(f"{sizes}", (one(torch.randint(0, 6, sizes, generator=generator)),)) for sizes in ((), (4,), (2, 3), (0,))]
    return sets + [("out of range", (one(torch.tensor([1, 6])),)), ("negative", (one(torch.tensor([1, -1])),))]


def vectors():
    sets = []
    for dtype in FLOATS + (torch.int64,):
        for n in (0, 1, 5):
            sets.append((f"{short(dtype)} {n}", (one(draw(dtype, n)), one(draw(dtype, n)))))
        sets.append((f"{short(dtype)} gaps", (one(draw(dtype, 6), "gaps"), one(draw(dtype, 6), "gaps"))))
        sets.append((f"{short(dtype)} 3 and 4", (one(draw(dtype, 3)), one(draw(dtype, 4)))))
    sets.append(("mixed", (one(draw(torch.float32, 3)), one(draw(torch.float64, 3)))))
    return sets + [("float32 special", (one(torch.tensor([nan, 1.0, inf])), one(torch.tensor([1.0, 0.0, 2.0]))))]


def picks():
    sets = []
    for name, (x,) in [u for u in unary() if "0-dim" not in u[0]]:
        first, last = (x[0].shape[0], x[0].shape[-1])
        index = torch.tensor([0, 0, min(first, last) - 1]) if min(first, last) else torch.zeros(0, dtype=torch.int64)
        sets.append((name, (x, one(index))))
    x = one(draw(torch.float32, 3, 4))
    for what, index in (("none", []), ("out of range", [3]), ("negative", [-1])):
        sets.append((what, (x, one(torch.tensor(index, dtype=torch.int64)))))
    sets.append(("int32", (x, one(torch.tensor([2, 0], dtype=torch.int32)))))
    sets.append(("0-dim x", (one(draw(torch.float32)), one(torch.tensor([0])))))
    return sets


def gathers():
    sets = []
    for name, (x,) in unary():
        bound = min(x[0].shape) if x[0].dim() else 1
        sets.append((name, (x, one(torch.randint(0, max(bound, 1), x[0].shape, generator=generator)))))
    x = draw(torch.float32, 3, 4)
    sets.append(("smaller", (one(x), one(torch.randint(0, 3, (2, 3), generator=generator)))))
    sets.append(("out of range", (one(x), one(torch.full((3, 4), 4)))))
    sets.append(("negative", (one(x), one(torch.full((3, 4), -1)))))
    sets.append(("other rank", (one(x), one(torch.zeros(3, dtype=torch.int64)))))
    return sets


def distinct(shape):
    """Along the first dimension each place once."""
    if len(shape) == 0:
        return torch.zeros((), dtype=torch.int64)
    return torch.argsort(torch.rand(shape, generator=generator), dim=0)


def scatters():
    sets = []
    for name, (x,) in unary():
        if not name.startswith("bool") and "expanded" not in name:
            source = draw(x[0].dtype, *x[0].shape)
            sets.append((name, (x, one(distinct(x[0].shape)), one(source))))
    return sets


def index_adds():
    sets = []
    for name, (x,) in unary():
        if x[0].dim() and x[0].shape[0] and not name.startswith("bool") and "expanded" not in name:
            rows = 3
            index = torch.randint(0, x[0].shape[0], (rows,), generator=generator)
            sets.append((name, (x, one(index), one(draw(x[0].dtype, rows, *x[0].shape[1:])))))
    return sets


def embeddings():
    sets = []
    for dtype in FLOATS:
        for sizes in ((), (4,), (2, 3), (0,)):
            index = torch.randint(0, 5, sizes, generator=generator)
            sets.append((f"{short(dtype)} {list(sizes)}", (one(draw(dtype, 5, 3)), one(index))))
    sets.append(("int32", (one(draw(torch.float32, 5, 3)), one(torch.tensor([4, 0], dtype=torch.int32)))))
    return sets + [("out of range", (one(draw(torch.float32, 5, 3)), one(torch.tensor([5]))))]


def bags():
    sets = []
    for dtype in FLOATS:
        for sizes in ((4, 2), (2, 3), (1, 1), (0, 2), (2, 0)):
            index = torch.randint(0, 5, sizes, generator=generator)
            sets.append((f"{short(dtype)} {list(sizes)}", (one(draw(dtype, 5, 3)), one(index))))
    return sets


def of_shapes(*cases, dtypes=FLOATS, draws=None, layouts=("dense", "gaps", "reversed")):
    """Tensors of these shapes: cases are tuples of shapes, None for a tensor that is not there."""
    sets = []
    for dtype in dtypes:
        for case in cases:
            for layout in layouts:
                if layout != "dense" and (case is not cases[0] or dtype not in (torch.float32, torch.bfloat16)):
                    continue
                tensors = [None if s is None else one((draws[i] if draws else draw)(dtype, *s), layout) for i, s in enumerate(case)]
                name = " ".join(str(list(s)) if s is not None else "-" for s in case)
                sets.append((f"{short(dtype)} {name}" + ("" if layout == "dense" else " " + layout), tuple(tensors)))
    return sets


def matrices():
    return of_shapes(((3, 4), (4, 5)), ((1, 1), (1, 1)), ((0, 3), (3, 2)), ((3, 0), (0, 2)), ((3, 4), (3, 4)),
                     dtypes=FLOATS + (torch.int64,)) + [
        ("mixed", (one(draw(torch.float32, 2, 3)), one(draw(torch.float64, 3, 2)))),
        ("special", (one(torch.tensor([[nan, 1.0], [inf, 0.0]])), one(torch.tensor([[1.0, 0.0], [2.0, 1.0]]))))]


def products():
    return of_shapes(((3, 4), (4, 5)), ((4,), (4,)), ((4,), (4, 2)), ((3, 4), (4,)), ((2, 3, 4), (4, 2)), ((2, 3, 4), (2, 4, 2)),
                     ((2, 1, 3, 4), (5, 4, 2)), ((4,), (2, 4, 3)), ((2, 0, 4), (4, 2)), ((0,), (0,)), ((2, 3, 0), (0, 2)),
                     ((), (3,)), ((3,), (4,)), ((2, 3, 4), (3, 4, 2)), dtypes=FLOATS + (torch.int64,))


def batches():
    return of_shapes(((2, 3, 4), (2, 4, 5)), ((0, 3, 4), (0, 4, 5)), ((2, 3, 0), (2, 0, 2)), ((2, 3, 4), (3, 4, 5)), ((3, 4), (4, 5)))


def linears():
    return of_shapes(((3, 4), (2, 4), (2,)), ((4,), (2, 4), (2,)), ((2, 3, 4), (5, 4), (5,)), ((0, 4), (2, 4), (2,)),
                     ((3, 0), (2, 0), (2,)), ((3, 4), (0, 4), (0,)), ((3, 5), (2, 4), (2,)))


def addmms():
    return of_shapes(((3, 4), (4, 2), (3, 2)), ((3, 4), (4, 2), (2,)), ((3, 4), (4, 2), ()), ((3, 4), (4, 2), (3, 1)),
                     ((0, 4), (4, 2), (2,)), ((3, 0), (0, 2), (3, 2)), ((3, 4), (4, 2), (3, 3)))


def bilinears():
    return of_shapes(((3, 4), (3, 2), (5, 4, 2), (5,)), ((4,), (2,), (5, 4, 2), (5,)), ((2, 3, 4), (2, 3, 2), (5, 4, 2), (5,)),
                     ((0, 4), (0, 2), (5, 4, 2), (5,)))


def point_sets():
    return of_shapes(((3, 4), (5, 4)), ((2, 3, 4), (2, 5, 4)), ((2, 3, 4), (5, 4)), ((0, 4), (5, 4)), ((3, 0), (5, 0)), ((3, 4), (5, 3)),
                     dtypes=(torch.float32, torch.float64)) + [
        ("equal rows", (one(torch.tensor([[1.0, 2.0], [3.0, 4.0]])), one(torch.tensor([[1.0, 2.0], [0.0, 1.0]]))))]


def losses():
    return same(2, FLOATS) + [("other shapes", (one(draw(torch.float32, 2, 3)), one(draw(torch.float32, 3)))),
                              ("mixed", (one(draw(torch.float32, 3)), one(draw(torch.float64, 3))))]


def probability(dtype, *sizes):
    return (torch.randint(0, 9, sizes, generator=generator) / 8).to(dtype)


def inner_probability(dtype, *sizes):
    return (torch.randint(1, 8, sizes, generator=generator) / 8).to(dtype)


def probability_pairs():
    return (same(2, FLOATS, special=False, draws=[inner_probability, probability])
            + [("bounds", (one(torch.tensor([0.0, 1.0, 1.0, 0.0, 0.0])), one(torch.tensor([1.0, 0.0, 1.0, 0.0, 0.5])))),
               ("outside", (one(torch.tensor([1.5])), one(torch.tensor([1.0])))),
               ("nan", (one(torch.tensor([nan])), one(torch.tensor([1.0])))),
               ("target outside", (one(torch.tensor([0.5])), one(torch.tensor([-1.0]))))])


def logit_pairs():
    special = torch.tensor(SPECIAL)
    return same(2, FLOATS, special=False, draws=[draw, probability]) + [
        (f"special {target}", (one(special), one(torch.full_like(special, target)))) for target in (0.0, 1.0, 0.5)]


def class_rows(special=True):
    sets = []
    for dtype in FLOATS:
        for sizes in ((3, 4), (4,), (2, 4, 3), (1, 1), (0, 4), (2, 3, 0), (2, 5, 2, 2)):
            classes = sizes[1] if len(sizes) > 1 else sizes[0]
            rows = sizes[:1] + sizes[2:] if len(sizes) > 1 else ()
            target = torch.randint(0, classes, rows, generator=generator)
            sets.append((f"{short(dtype)} {list(sizes)}", (one(draw(dtype, *sizes)), one(target), one(positive(dtype, classes)))))
    x = draw(torch.float32, 3, 4)
    w = one(positive(torch.float32, 4))
    sets.append(("ignored", (one(x), one(torch.tensor([1, -100, 2])), w)))
    sets.append(("all ignored", (one(x), one(torch.tensor([-100, -100, -100])), w)))
    sets.append(("out of range", (one(x), one(torch.tensor([1, 4, 2])), w)))
    sets.append(("probabilities", (one(x), one(probability(torch.float32, 3, 4)), w)))
    sets.append(("special", (one(torch.tensor([[inf, 1.0], [nan, 1.0], [-inf, 0.0], [-inf, 0.0]])), one(torch.tensor([0, 0, 0, 1])),
                             one(torch.ones(2)))))
    sets.append(("gaps", (one(x, "gaps"), one(torch.tensor([1, 0, 2]), "gaps"), w)))
    return sets


def plain_class_rows():
    return [s for s in class_rows() if s[1][0][0].dim() <= 2 and "prob" not in s[0] and "ignored" not in s[0]]


def label_rows():
    sets = []
    for dtype in FLOATS:
        for sizes in ((3, 4), (4,), (1, 1), (0, 4)):
            label = torch.randint(-1, sizes[-1], sizes, generator=generator)
            for row in label.view(-1, sizes[-1]):
                row.copy_(torch.cat((torch.unique(row[row >= 0]), torch.full(sizes[-1:], -1)))[:sizes[-1]])
            sets.append((f"{short(dtype)} {list(sizes)}", (one(draw(dtype, *sizes)), one(label))))
    return sets


def gaussians():
    sets = same(3, FLOATS, special=False, draws=[draw, draw, positive])
    return [s for s in sets if "0-dim" not in s[0]] + [
        ("one variance", (one(draw(torch.float32, 3, 4)), one(draw(torch.float32, 3, 4)), one(positive(torch.float32, 3, 1)))),
        ("zero variance", (one(draw(torch.float32, 3)), one(draw(torch.float32, 3)), one(torch.zeros(3))))]


def ctcs():
    sets = []
    for dtype in (torch.float32, torch.float64):
        for time, batch, classes, length in ((6, 2, 4, 2), (5, 1, 3, 0), (3, 2, 3, 3), (1, 1, 2, 1)):
            targets = torch.randint(1, classes, (batch, length), generator=generator)
            sets.append((f"{short(dtype)} {time} {batch} {classes} {length}",
                         (one(draw(dtype, time, batch, classes)), one(targets), one(torch.full((batch,), time)),
                          one(torch.full((batch,), length)))))
    return sets


def sign(dtype, *sizes):
    return (torch.randint(0, 2, sizes, generator=generator) * 2 - 1).to(dtype)


def signed_triples():
    return same(3, FLOATS, special=False, draws=[draw, draw, sign]) + [
        ("mixed", (one(draw(torch.float32, 3)), one(draw(torch.float64, 3)), one(sign(torch.float32, 3)))),
        ("mixed targets", (one(draw(torch.float32, 3)), one(draw(torch.float32, 3)), one(sign(torch.float64, 3))))]


def signed_rows():
    sets = []
    for dtype in FLOATS:
        for rows, features in ((3, 4), (1, 1), (0, 3), (2, 5)):
            sets.append((f"{short(dtype)} {rows} {features}",
                         (one(draw(dtype, rows, features)), one(draw(dtype, rows, features)), one(sign(dtype, rows)))))
    zero = one(torch.zeros(1, 3))
    return sets + [("zeros", (zero, zero, one(torch.ones(1)))), ("one row", (one(draw(torch.float32, 3)), one(draw(torch.float32, 3)), one(torch.tensor(1.0))))]


def point_rows():
    return of_shapes(((3, 4), (3, 4), (3, 4)), ((4,), (4,), (4,)), ((1, 1), (1, 1), (1, 1)), ((0, 3), (0, 3), (0, 3))) + [
        ("mixed", (one(draw(torch.float32, 3, 4)), one(draw(torch.float32, 3, 4)), one(draw(torch.float64, 3, 4))))]


def norm_rows():
    return of_shapes(((3, 4), (4,), (4,)), ((4,), (4,), (4,)), ((2, 3, 4), (4,), (4,)), ((2, 1), (1,), (1,)), ((0, 4), (4,), (4,)),
                     ((3, 4), (3,), (3,))) + [
        ("special", (one(torch.tensor([[1.0, nan], [inf, 1.0], [2.0, 2.0], [1e30, -1e30]])), one(torch.ones(2)), one(torch.zeros(2)))),
        ("large mean", (one(torch.tensor([[1000.0, 1001.0, 1002.0]])), one(torch.ones(3)), one(torch.zeros(3))))]


def norm_images():
    return of_shapes(((3, 4, 5), (4,), (4,)), ((3, 4), (4,), (4,)), ((2, 4, 3, 2), (4,), (4,)), ((1, 4, 1), (4,), (4,)), ((0, 4, 3), (4,), (4,)),
                     ((2, 3, 2), (3,), (3,)))


def lines():
    return of_shapes(((2, 3, 5),), ((3, 6),), ((1, 1, 2),), ((0, 2, 5),), ((2, 0, 5),), ((2, 3, 0),)) + [
        ("special", (one(torch.tensor([[[nan, 1.0, inf, 0.0, -inf, 2.0]]])),))]


def images():
    return of_shapes(((2, 3, 5, 6),), ((3, 4, 5),), ((1, 1, 2, 3),), ((0, 2, 4, 5),), ((2, 2, 0, 4),)) + [
        ("special", (one(torch.tensor(SPECIAL).view(1, 1, 4, 4)),))]


def positive_images():
    return of_shapes(((2, 3, 5, 6),), ((3, 4, 5),), draws=[positive])


def solids():
    return of_shapes(((2, 2, 3, 4, 5),), ((2, 2, 3, 4),), ((0, 1, 2, 2, 2),))


def signals():
    return of_shapes(((2, 3, 7), (4, 3, 2), (4,)), ((3, 7), (4, 3, 3), (4,)), ((1, 1, 3), (1, 1, 1), (1,)), ((0, 3, 7), (4, 3, 2), (4,)),
                     ((2, 3, 1), (4, 3, 4), (4,)), ((2, 2, 7), (4, 3, 2), (4,)))


def pictures():
    return of_shapes(((2, 3, 5, 6), (4, 3, 2, 3), (4,)), ((3, 5, 6), (4, 3, 1, 1), (4,)), ((1, 1, 4, 4), (2, 1, 3, 3), (2,)),
                     ((0, 3, 5, 6), (4, 3, 2, 2), (4,)), ((2, 3, 1, 1), (4, 3, 3, 3), (4,)))


def volumes():
    return of_shapes(((1, 2, 3, 4, 3), (3, 2, 2, 2, 2), (3,)), ((2, 3, 3, 3), (2, 2, 1, 2, 3), (2,)))


def turned_signals():
    return of_shapes(((2, 3, 5), (3, 4, 2), (4,)), ((3, 4), (3, 2, 3), (2,)), ((0, 3, 5), (3, 4, 2), (4,)), ((1, 1, 1), (1, 1, 1), (1,)))


def turned_pictures():
    return of_shapes(((2, 3, 3, 4), (3, 2, 2, 3), (2,)), ((3, 3, 2), (3, 2, 2, 2), (2,)), ((0, 3, 3, 4), (3, 2, 2, 3), (2,)))


def turned_volumes():
    return of_shapes(((1, 2, 2, 3, 2), (2, 3, 2, 2, 2), (3,)))


def pooled(pool, *sizes):
    values, index = pool(torch.randperm(math.prod(sizes), generator=generator).view(sizes).float(), 2, return_indices=True)
    return [(short(dtype), (one(values.to(dtype)), one(index))) for dtype in FLOATS]


def line_unpools():
    return pooled(torch.nn.functional.max_pool1d, 2, 3, 6)


def unpools():
    return pooled(torch.nn.functional.max_pool2d, 1, 2, 4, 6)


def solid_unpools():
    return pooled(torch.nn.functional.max_pool3d, 1, 2, 4, 2, 4)


def columns():
    return of_shapes(((2, 8, 6),), ((8, 6),), ((0, 8, 6),), ((2, 8, 5),))


def shuffles():
    return of_shapes(((2, 8, 4, 6),), ((1, 4, 2, 2),), ((0, 4, 2, 2),), ((8, 4, 4),), ((2, 3, 3, 3),))


def attentions():
    sets = of_shapes(((2, 3, 4), (2, 5, 4), (2, 5, 6), (3, 5)), ((2, 2, 3, 4), (2, 2, 3, 4), (2, 2, 3, 4), (3, 3)),
                     ((3, 4), (5, 4), (5, 4), (3, 5)), ((2, 0, 4), (2, 5, 4), (2, 5, 4), (0, 5)), ((0, 3, 4), (0, 5, 4), (0, 5, 4), (3, 5)))
    masks = [("bool mask", draw(torch.bool, 3, 5)), ("row without keys", torch.tensor([[False] * 5, [True] * 5, [True] * 5]))]
    return sets + [(name, tuple(one(draw(torch.float32, 2, n, 4)) for n in (3, 5, 5)) + (one(mask),)) for name, mask in masks]


def cells(gates):
    return of_shapes(((2, 3), (2, 4), (gates * 4, 3), (gates * 4, 4)), ((0, 3), (0, 4), (gates * 4, 3), (gates * 4, 4)))


def rnn_cells():
    return cells(1)


def gru_cells():
    return cells(3)


def lstm_cells():
    return cells(4)
