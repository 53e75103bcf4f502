"""Computes with PyTorch what tests/idioms/*.cpp write, and stores it by name: PYTHON with torch and safetensors,
python make_idioms.py. The file in the repository was made with PyTorch 2.15.0."""
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import tensor

k = {}
matrix = lambda: tensor([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]])
other = lambda: tensor([[2.0, 2.0, 2.0], [-4.0, 1.0, 0.5]])
whole = lambda: torch.arange(12).view(3, 4)
positive = lambda: tensor([[0.5, 1.0, 2.0], [4.0, 8.0, 16.0]])
cube = lambda: torch.arange(24).view(2, 3, 4)
image = lambda: torch.linspace(-1, 1, 72).view(1, 2, 6, 6)
leaf = lambda: matrix().requires_grad_()


def written(x, f):
    f(x)
    return x


def grad(f):
    x = leaf()
    f(x).backward()
    return x.grad


def filled(layer):
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_(torch.linspace(-0.5, 0.5, p.numel()).view(p.shape))
    return layer


m, o, w = matrix(), other(), whole()

# Tensors.
k["zeros"] = torch.zeros(2, 3)
k["zeros of one size"] = torch.zeros(3)
k["zeros of a dtype"] = torch.zeros(2, 2, dtype=torch.int64)
k["zeros on a device"] = torch.zeros(2, 2, device="cpu")
k["zeros of a vector of sizes"] = torch.zeros([2, 3])
k["ones"] = torch.ones(2, 3, dtype=torch.double)
k["full"] = torch.full((2, 2), 1.5)
k["full of integers"] = torch.full((2,), 7, dtype=torch.long)
k["eye"] = torch.eye(3)
k["eye of two sizes"] = torch.eye(2, 3)
k["arange"] = torch.arange(5)
k["arange from to"] = torch.arange(1, 5)
k["arange by steps"] = torch.arange(0, 10, 3)
k["arange of floats"] = torch.arange(4, dtype=torch.float)
k["arange of fractions"] = torch.arange(0, 1, 0.25)
k["linspace"] = torch.linspace(-1, 1, 5)
k["linspace of one"] = torch.linspace(3, 7, 1)
k["logspace"] = torch.logspace(0, 3, 4)
k["tensor of integers"] = tensor([1, 2, 3])
k["tensor of floats"] = tensor([1.5, 2.5])
k["tensor of a dtype"] = tensor([1, 2, 3], dtype=torch.float)
k["tensor of a matrix"] = tensor([[1, 2], [3, 4]])
k["tensor of bools"] = tensor([True, False])
k["tensor of a number"] = tensor(3.5)
k["tensor of a vector"] = tensor([1.0, 2.0, 3.0])
k["from_blob"] = tensor([[1.0, 2.0], [3.0, 4.0]])
k["from_blob of integers"] = tensor([5, 6, 7])
k["zeros_like"] = torch.zeros_like(w)
k["ones_like of a dtype"] = torch.ones_like(w, dtype=torch.float)
k["full_like"] = torch.full_like(m, 2)
k["new_zeros"] = w.new_zeros(2)
k["new_full"] = m.new_full((2, 2), 3)
k["to a dtype"] = m.to(torch.int64)
k["to bool"] = tensor([0, 1, 2]).to(torch.bool)
k["type_as"] = w.type_as(m)
k["clone"] = m.clone()
k["view"] = w.view(4, 3)
k["view of -1"] = w.view(-1)
k["view with -1"] = w.view(2, -1)
k["view_as"] = torch.arange(6).view_as(m)
k["reshape"] = w.t().reshape(2, 6)
k["flatten"] = w.flatten()
k["flatten from a dimension"] = cube().flatten(1)
k["squeeze"] = torch.zeros(1, 2, 1).squeeze()
k["squeeze a dimension"] = torch.zeros(1, 2, 1).squeeze(0)
k["unsqueeze"] = m.unsqueeze(0)
k["unsqueeze at the end"] = m.unsqueeze(-1)
k["transpose"] = w.transpose(0, 1)
k["t"] = w.t()
k["T"] = w.T
k["permute"] = cube().permute(2, 0, 1)
k["movedim"] = torch.movedim(cube(), 0, 2)
k["expand"] = tensor([[1], [2]]).expand(2, 3)
k["expand_as"] = tensor([1, 2, 3]).expand_as(m)
k["repeat"] = tensor([1, 2]).repeat(2, 2)
k["tile"] = w.tile(2)
k["repeat_interleave"] = tensor([1, 2]).repeat_interleave(2, 0)
k["flip"] = w.flip(0, 1)
k["flip a dimension"] = w.flip(1)
k["roll"] = w.roll(1, 0)
k["tril"] = w.tril()
k["triu"] = w.triu(1)
k["diag of a vector"] = torch.diag(tensor([1, 2, 3]))
k["diag of a matrix"] = torch.diag(w, 1)
k["diagonal"] = w.diagonal()
k["cat"] = torch.cat([m, o], 0)
k["cat columns"] = torch.cat([m, o], 1)
k["stack"] = torch.stack([m, o])
k["chunk"] = w.chunk(2, 1)[1]
k["split"] = w.split(2)[1]
k["split into sizes"] = w.split([1, 3], 1)[1]
k["unbind"] = w.unbind(0)[2]
k["meshgrid"] = torch.meshgrid(tensor([1, 2]), tensor([3, 4, 5]), indexing="ij")[1]
k["meshgrid by columns"] = torch.meshgrid(tensor([1, 2]), tensor([3, 4, 5]), indexing="xy")[1].contiguous()
k["rot90"] = torch.rot90(w, 1, (0, 1)).contiguous()
k["rot90 backwards"] = torch.rot90(w, -1, (1, 0)).contiguous()
k["in_features"] = tensor(torch.nn.Linear(3, 5).in_features)
k["out_channels"] = tensor(torch.nn.Conv2d(3, 5, 1).out_channels)
k["one_hot"] = F.one_hot(tensor([0, 2, 1]), 3)
k["size"] = tensor(w.size(1))
k["sizes as a vector"] = tensor(list(w.shape))
k["numel and dim"] = tensor([w.numel(), w.dim()])
k["item"] = tensor(m[0][1].item())
k["item without a type"] = tensor([m[0][1].item(), m.sum().item()])
k["accessor"] = tensor([[0.0, 1.0], [10.0, 11.0]])
k["data_ptr"] = tensor([0.0, 9.0, 2.0])
k["printed sizes equal"] = tensor(m.shape == (2, 3))

# Math.
k["add"] = m + o
k["add a number"] = m + 1
k["add in place"] = matrix().add_(o, alpha=2)
k["subtract from a number"] = 1 - m
k["multiply"] = m * o
k["divide"] = m / o
k["divide integers"] = tensor([7, 8]) / 2
k["number over a tensor"] = 2 / o
k["remainder"] = tensor([-3, 3, 7]) % 4
k["remainder of floats"] = torch.remainder(m, 1.5)
k["remainder of tensors"] = m.remainder(o)
k["negate"] = -m
k["compound assignment"] = ((m + 1) * o - o) / 2
k["pow"] = m.pow(2)
k["pow of a tensor"] = positive().pow(o)
k["number to the power of a tensor"] = torch.pow(2, m)
k["abs"] = m.abs()
k["exp"] = m.exp()
for name in ("log", "log2", "log10", "sqrt", "rsqrt"):
    k[name] = getattr(positive(), name)()
for name in ("sin", "tan", "tanh", "sigmoid", "relu"):
    k[name] = getattr(m, name)()
k["free relu"] = torch.relu(m)
k["relu in place"] = matrix().relu_()
k["sigmoid in place"] = matrix().sigmoid_()
k["floor"] = (m / 4).floor()
k["round"] = (m / 4).round()
k["sign"] = m.sign()
k["clamp"] = m.clamp(-1, 2)
k["free clamp"] = torch.clamp(m, 0, 1)
k["clamp_min"] = m.clamp_min(0)
k["clamp_max"] = m.clamp_max(0)
k["clamp in place"] = matrix().clamp_(0, 3)
k["equal elements"] = m == o
k["equal to a number"] = m == 3
k["different elements"] = m != o
k["number different"] = 3 != m
k["less"] = m < o
k["number less"] = 0 < m
k["eq"] = m.eq(o)
k["ge"] = m.ge(0)
k["accuracy"] = m.argmax(1).eq(tensor([2, 0])).sum()
k["and of masks"] = (m > -3) & (m < 3)
k["or of masks"] = (m < -3) | (m > 3)
k["or of masks in place"] = ((matrix() < -3) | (matrix() > 3)) & tensor([True, False, True])
k["xor of bits in place"] = whole() ^ 5
k["not a mask"] = ~(m > 0)
k["bits and"] = tensor([5, 6]) & tensor([3, 3])
k["bits xor"] = tensor([5, 6]) ^ tensor([3, 3])
k["bits not"] = ~tensor([0, 5])
k["logical_and"] = m.logical_and(tensor([1, 0, 1]))
k["where"] = torch.where(m > 0, m, o)
k["where with a number"] = torch.where(m > 0, m, 0.0)
k["where as a method"] = m.where(m > 0, o)
k["isnan"] = (torch.zeros(2) / torch.zeros(2)).isnan()
k["allclose"] = tensor(torch.allclose(m, m + 1e-9))
k["same tensors"] = tensor(torch.equal(m, matrix()))
k["maximum"] = torch.maximum(m, o)
k["max of two"] = m.max(o)
k["sum"] = m.sum()
k["sum of a dimension"] = m.sum(1)
k["sum keeps dimensions"] = m.sum(1, True)
k["sum of two dimensions"] = cube().sum((0, 2))
k["free sum"] = torch.sum(m, 0)
k["mean"] = m.mean()
k["mean of a dimension"] = m.mean(0)
k["mean of dimensions"] = m.mean((0, 1))
k["prod"] = m.prod()
k["prod of a dimension"] = m.prod(1)
k["any"] = (m > 4).any()
k["all of a dimension"] = (m > -3).all(1)
k["max"] = m.max()
k["max values"] = torch.max(m, 1).values
k["max indices"] = m.max(1).indices
k["min values"] = m.min(0).values
k["argmax"] = m.argmax()
k["argmax of a dimension"] = m.argmax(1)
k["argmin keeps dimensions"] = m.argmin(1, True)
k["amax"] = m.amax((0, 1))
k["var"] = m.var()
k["var without correction"] = m.var(1, False)
k["std"] = m.std(1)
k["norm"] = m.norm()
k["norm of a dimension"] = m.norm(2, 1)
k["1-norm"] = m.norm(1)
k["logsumexp"] = m.logsumexp(1)
k["softmax"] = m.softmax(1)
k["free softmax"] = torch.softmax(m, -1)
k["log_softmax"] = m.log_softmax(1)
k["cumsum"] = w.cumsum(1)
k["matmul"] = m.matmul(o.t())
k["mm"] = torch.mm(m, o.t())
k["bmm"] = torch.ones(2, 1, 3).bmm(torch.arange(12, dtype=torch.float).view(2, 3, 2))
k["dot"] = torch.dot(m[0], o[1])
k["outer"] = torch.outer(tensor([1.0, 2.0]), tensor([3.0, 4.0]))
k["einsum"] = torch.einsum("ij,kj->ik", m, o)
k["normalize"] = F.normalize(m, dim=1)
k["cosine_similarity"] = F.cosine_similarity(m, o)
k["cdist"] = torch.cdist(m, o)

# Indexing.
k["element"] = w[1][2]
k["row"] = w[-1]
k["slice"] = w[:, 1:3]
k["narrow"] = w.narrow(0, 1, 2)
k["select"] = w.select(1, 0)
k["index row"] = w[1]
k["index column"] = w[:, 1]
k["index from"] = w[1:]
k["index to"] = w[:2, :3]
k["index by steps"] = w[:, ::2]
k["index negative"] = w[-2:]
k["index ellipsis"] = w[..., 0]
k["index none"] = w[None, 0]
k["mask"] = k["mask in brackets"] = w[w > 5]
rows = tensor([True, False, True])
k["mask of rows"] = w[rows]
k["mask of rows, slice"] = w[rows, 1:3]
k["rows by indices"] = w[tensor([2, 0, 2])]
k["rows in brackets"] = w[tensor([2, 0])]
k["columns by indices"] = w[:, tensor([3, 0])]
k["pairs of indices"] = w[tensor([0, 1, 2]), tensor([3, 2, 1])]
k["negative indices"] = w[tensor([-1])]
k["indices that broadcast"] = w[tensor([[0], [2]]), tensor([1, 3])]
k["indices apart"] = cube()[tensor([0, 1]), :, tensor([2, 3])]
k["indices in the middle"] = cube()[:, tensor([2, 0]), 0:2]
k["index and indices"] = cube()[1, tensor([0, 2])]
k["write a row"] = written(whole(), lambda x: x[0].fill_(0))
k["write a row of another"] = written(whole(), lambda x: x[1].copy_(tensor([9, 8, 7, 6])))
k["write a slice"] = written(whole(), lambda x: x[:, 0:2].fill_(-1))
k["index_put_ a slice"] = written(whole(), lambda x: x[:, 1].fill_(5))
k["index_put_ a mask"] = written(whole(), lambda x: x.index_put_((x > 5,), tensor(0)))
k["index_put_ indices"] = torch.zeros(3, 3).index_put_((tensor([0, 2]), tensor([1, 2])), tensor([4.0, 5.0]))
k["index_put_ adds"] = torch.zeros(3).index_put_((tensor([0, 2, 0]),), tensor([1.0, 2.0, 3.0]), accumulate=True)
k["index_put_ rows"] = whole().index_put_((tensor([2, 0]),), tensor([1, 2, 3, 4]))
k["masked_fill"] = w.masked_fill(w > 5, -1)
k["masked_fill_ for attention"] = matrix().masked_fill_(m == 3, float("-inf"))
k["masked_select"] = w.masked_select(w % 2 == 0)
k["nonzero"] = (w > 8).nonzero()
k["index_select"] = w.index_select(1, tensor([0, 3]))
k["gather"] = w.gather(1, tensor([[0], [2], [1]]))
k["scatter"] = torch.zeros(2, 3).scatter(1, tensor([[0], [2]]), tensor([[5.0], [6.0]]))
k["scatter_ a number"] = torch.zeros(2, 3).scatter_(1, tensor([[1], [2]]), 1)
k["scatter_add"] = torch.zeros(3).scatter_add(0, tensor([0, 2, 0]), tensor([1.0, 2.0, 3.0]))
k["scatter_add_"] = torch.ones(3).scatter_add_(0, tensor([1, 1]), tensor([1.0, 2.0]))
k["sort"] = m.sort().values
k["sort descending"] = m.sort(1, True).indices
k["argsort"] = m.argsort(0)
k["topk"] = m.topk(2).values
k["topk indices"] = torch.topk(m, 2, 1).indices
k["topk least"] = m.topk(1, 0, False).values
k["unique"] = tensor([3, 1, 3, 2]).unique()
k["unique counts"] = torch.unique(tensor([3, 1, 3, 2]), return_counts=True)[1]
k["unique inverse"] = torch.unique(tensor([[3, 1], [3, 2]]), return_inverse=True)[1]
k["bincount"] = torch.bincount(tensor([0, 2, 2, 4]))
k["bincount of weights"] = torch.bincount(tensor([0, 1, 1]), tensor([0.5, 1.0, 2.0]), 4)
k["confusion matrix"] = torch.bincount(tensor([0, 1, 1, 2]) * 3 + tensor([0, 1, 2, 2]), minlength=9).view(3, 3)
k["multinomial of one choice"] = torch.multinomial(tensor([0.0, 0.0, 1.0]), 4, True)
k["multinomial of all"] = torch.multinomial(tensor([1.0, 2.0, 3.0]), 3).sort().values
k["bernoulli of certain ones"] = torch.bernoulli(tensor([0.0, 1.0, 1.0]))
k["bernoulli_ of one"] = torch.zeros(3).bernoulli_(1)
k["uniform_ of nothing"] = torch.empty(3).uniform_(2, 2)
k["normal_ without spread"] = torch.empty(3).normal_(5, 0)
k["normal of means without spread"] = torch.normal(m, 0.0)
k["randint of one"] = torch.randint(1, (3,))
k["randperm sorted"] = torch.randperm(5).sort().values
k["rand in range"] = ((torch.rand(1000) >= 0) & (torch.rand(1000) < 1)).all()

# Models.
nn = torch.nn
k["linear"] = filled(nn.Linear(3, 2))(m)
k["linear without bias"] = filled(nn.Linear(3, 2, bias=False))(m)
k["conv2d"] = filled(nn.Conv2d(2, 3, 3, stride=2, padding=1))(image())
k["max_pool2d"] = nn.MaxPool2d(2)(image())
k["avg_pool2d"] = F.avg_pool2d(image(), 3)
k["adaptive_avg_pool2d"] = nn.AdaptiveAvgPool2d(1)(image())
k["batch_norm in training"] = nn.BatchNorm2d(2)(image())
k["layer_norm"] = nn.LayerNorm(3)(m)
k["embedding"] = filled(nn.Embedding(4, 2))(tensor([[3, 0]]))
k["lstm output"] = filled(nn.LSTM(3, 2))(m.unsqueeze(0))[0]
net = nn.Sequential(filled(nn.Linear(3, 4)), nn.ReLU(), filled(nn.Linear(4, 2)))
k["sequential"] = net(m)
k["sequential with a lambda"] = net(m)
k["dropout in evaluation"] = nn.Dropout(0.5).eval()(m)
k["number of parameters"] = k["num_parameters"] = tensor(sum(p.numel() for p in nn.Linear(3, 2).parameters()))
k["gelu"] = F.gelu(m)
k["leaky_relu"] = F.leaky_relu(m, 0.2)
k["mse_loss"] = F.mse_loss(m, o)
k["l1_loss"] = F.l1_loss(m, o)
k["cross_entropy"] = F.cross_entropy(m, tensor([2, 0]))
k["nll_loss"] = F.nll_loss(m.log_softmax(1), tensor([2, 0]))
k["bce_with_logits"] = F.binary_cross_entropy_with_logits(m, (o > 1).float())
k["backward"] = grad(lambda x: (x * x).sum())
x = leaf()
x.sum().backward()
x.sum().backward()
k["backward twice adds"] = x.grad
k["gradient through an index"] = grad(lambda x: x[tensor([1, 1]), tensor([0, 2])].sum())
k["gradient through a mask"] = grad(lambda x: x[x > 0].pow(2).sum())


def put(x):
    y = x * 2
    y.index_put_((y > 5,), tensor(0.0))
    return y.sum()


k["gradient through index_put_"] = grad(put)
k["gradient through relu_"] = grad(lambda x: (x * 3).relu_().sum())
places = tensor([[0, 1, 2], [2, 1, 0]])
k["gradient through scatter"] = grad(lambda x: torch.zeros(2, 3).scatter(1, places, x).pow(2).sum())
k["gradient through max"] = grad(lambda x: x.max(1).values.sum())
k["gradient through remainder"] = grad(lambda x: (x % 1.5).sum())
with torch.no_grad():
    k["no grad"] = tensor((leaf() * 2).requires_grad)
k["detach"] = tensor((leaf() * 2).detach().requires_grad)
layer = filled(nn.Linear(3, 1))
optimizer = torch.optim.SGD(layer.parameters(), lr=0.01, momentum=0.9)
for _ in range(3):
    optimizer.zero_grad()
    F.mse_loss(layer(m), torch.ones(2, 1)).backward()
    optimizer.step()
k["training step"] = layer.weight.detach().clone()
layer = filled(nn.Linear(3, 1))
optimizer = torch.optim.Adam(layer.parameters(), lr=1e-2)
F.mse_loss(layer(m), torch.ones(2, 1)).backward()
optimizer.step()
k["adam step"] = layer.weight.detach().clone()
k["state dict round trip"] = filled(nn.Linear(3, 2)).weight.detach().clone()
D = torch.distributions
k["normal log_prob"] = D.Normal(0.5, 2.0).log_prob(m)
k["normal entropy"] = D.Normal(torch.zeros(2), tensor([1.0, 3.0])).entropy()
k["uniform log_prob"] = D.Uniform(-1.0, 3.0, validate_args=False).log_prob(tensor([0.0, 5.0]))
k["bernoulli log_prob"] = D.Bernoulli(tensor([0.25, 0.5])).log_prob(tensor([1.0, 0.0]))
k["bernoulli entropy"] = D.Bernoulli(logits=tensor([0.5, -2.0])).entropy()
k["categorical log_prob"] = D.Categorical(logits=m).log_prob(tensor([2, 1]))
k["categorical entropy"] = D.Categorical(positive()).entropy()
k["categorical sample shape"] = tensor(list(D.Categorical(positive()).sample((4, 5)).shape))
k["policy gradient"] = grad(lambda x: (-D.Categorical(logits=x).log_prob(tensor([0, 2]))).mean())

# What newcomers wrote next.
k["full of inferred integers"] = torch.full((2, 2), 7)
k["full of bools"] = torch.full((2,), True)
k["full of inferred floats"] = torch.full((2,), 7.0)
k["full of a large integer"] = torch.full((2,), 2**53 + 1)
k["zeros on a kind of device"] = torch.zeros(2, 2, device="cpu")
k["a device by its kind"] = tensor(torch.device("cuda", 1).index)
k["to a kind of device"] = m.to("cpu")
k["to another"] = w.to(m)
k["options"] = torch.zeros(2, dtype=w.dtype)
k["scalar_type"] = tensor(m.dtype == torch.float and w.dtype == torch.long)
k["stride"] = tensor([w.stride(0), w.stride(-1), w.t().stride(0)])
k["concat"] = torch.concat([m, o], 1)
k["vstack of vectors"] = torch.vstack([tensor([1, 2]), tensor([3, 4])])
k["vstack of matrices"] = torch.vstack([m, o])
k["hstack of vectors"] = torch.hstack([tensor([1, 2]), tensor([3])])
k["hstack of matrices"] = torch.hstack([m, o])
k["hstack of numbers"] = torch.hstack([tensor(1), tensor(2)])
k["first of a tuple"] = m.max(1)[0]
k["second of a tuple"] = torch.max(m, 1)[1]
_, k["tied"] = m.sort(1)
k["both of masks"] = torch.logical_and(m > -3, m < 3)
k["either of masks"] = torch.logical_or(m < -3, m > 3)
k["median"] = m.median()
k["median of a dimension"] = w.median(1)[0]
k["median place"] = positive().median(0, True).indices
nan = float("nan")
k["median of what is not a number"] = tensor([3.0, nan, 1.0]).median()
k["median place of what is not a number"] = tensor([3.0, nan, nan, 1.0]).median(0).indices
k["addmm"] = torch.ones(2).addmm(m, o.t(), beta=0.5, alpha=2)
k["lerp"] = m.lerp(o, 0.25)
k["lerp by a tensor"] = torch.lerp(m, o, tensor([0.0, 0.75, 1.0]))
k["lerp_"] = matrix().lerp_(o, 1)
k["atan2"] = m.atan2(o)
k["free atan2"] = torch.atan2(tensor([0.0, 0.0, -0.0, 1.0]), tensor([1.0, -1.0, -1.0, 0.0]))
k["hypot"] = m.hypot(o)
k["hypot of large ones"] = torch.hypot(tensor([3e30, 0.0]), tensor([4e30, 0.0]))
k["ellipsis as text"] = w[..., 0]
k["text, slice and indices"] = cube()[..., tensor([3, 0])]
k["index_put_ behind an ellipsis"] = written(whole(), lambda x: x[..., 1].fill_(5))
k["index_add_"] = torch.ones(3, 2).index_add_(0, tensor([2, 0, 2]), torch.arange(6, dtype=torch.float).view(3, 2))
k["index_add of columns, scaled"] = m.index_add(1, tensor([0, 0]), torch.ones(2, 2), alpha=2)
k["randperm of a dtype"] = torch.randperm(4, dtype=torch.int32).sort().values
k["functional"] = F.relu(F.log_softmax(m, 1) + 2)
with torch.no_grad():
    k["no grad by its other name"] = tensor((leaf() * 2).requires_grad)
y = leaf() * 2
y.detach_()
k["detach_"] = tensor([y.requires_grad, y.is_leaf])


def retained(times):
    y = leaf() * 2
    y.retain_grad()
    loss = (y * y).sum()
    for _ in range(times):
        loss.backward(retain_graph=True)
    return y.grad


k["retain_grad"] = retained(1)
k["retain_grad twice adds"] = retained(2)


def clipped(clip):
    x = leaf()
    (x * x).sum().backward()
    clip(x)
    return x.grad


k["clip_grad_norm_"] = clipped(lambda x: nn.utils.clip_grad_norm_([x], 1))
k["clip_grad_value_"] = clipped(lambda x: nn.utils.clip_grad_value_([x], 5))
k["lstm with a state"] = filled(nn.LSTM(3, 2))(m.unsqueeze(0), (torch.ones(1, 2, 2), torch.zeros(1, 2, 2)))[0]
k["save and load a module"] = filled(nn.Linear(3, 2)).weight.detach().clone()
k["save and load an optimizer"] = tensor(torch.optim.SGD(nn.Linear(3, 1).parameters(), lr=0.25).param_groups[0]["lr"])
k["save and load a tensor"] = whole()

# Order, places and windows.
k["cumprod"] = w[1:].cumprod(1)
k["free cumprod"] = torch.cumprod(positive(), 0)
k["discounted weights"] = torch.full((4,), 0.9).cumprod(0)
k["alphas of a diffusion"] = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 10), 0).sqrt()
k["diff"] = tensor([1, 4, 9, 16]).diff()
k["diff twice"] = m.diff(2, 1)
k["diff with a zero in front"] = torch.diff(tensor([1, 4, 9]), 1, 0, torch.zeros(1, dtype=torch.int64))
k["quantile"] = m.quantile(0.25)
k["quantile of a dimension"] = torch.quantile(m, 0.5, 1, True)
k["quantiles"] = torch.quantile(m, tensor([0.25, 0.75]), 1)
k["quantile, the lower one"] = m.quantile(0.4, 1, False, interpolation="lower")
k["kthvalue"] = m.kthvalue(2).values
k["kthvalue place"] = torch.kthvalue(m, 2, 1)[1]
k["searchsorted"] = torch.searchsorted(tensor([1, 3, 5, 7]), tensor([[0, 3], [6, 9]]))
k["searchsorted right"] = torch.searchsorted(tensor([1, 3, 5, 7]), tensor([3, 6]), right=True)
k["searchsorted by side"] = torch.searchsorted(tensor([1.0, 3.0, 5.0]), 3, side="right")
k["inverse transform sampling"] = torch.searchsorted(tensor([0.1, 0.2, 0.7]).cumsum(0), tensor([0.05, 0.5, 0.95]))
k["bucketize"] = torch.bucketize(m, tensor([-3.0, 0.0, 3.0]))
k["bucketize right"] = torch.bucketize(w, tensor([3, 6, 9]), out_int32=True, right=True)
k["histc"] = torch.histc(m, 4, -6, 6)
k["histc of its own range"] = m.histc(3)
k["var_mean"] = torch.var_mean(m, 1)[0]
k["var_mean, the mean of all"] = torch.var_mean(m)[1]
k["nan_to_num"] = torch.nan_to_num(m / 0)
k["nan_to_num in place"] = (torch.zeros(2) / 0).nan_to_num_(7)
k["fmod"] = torch.fmod(m, 4)
k["fmod of tensors"] = m.fmod(o)
k["clip"] = m.clip(-1, 2)
k["clip from below"] = torch.clip(m, 0)
k["clip in place"] = matrix().clip_(-2, 2)
k["addcmul"] = torch.addcmul(m, o, positive(), value=0.5)
k["addcmul_"] = matrix().addcmul_(o, o, value=2)
k["addcdiv_ of an Adam step"] = matrix().addcdiv_(o, positive().sqrt().add_(1e-8), value=-0.01)
k["mv"] = torch.mv(m, o[0])
k["einsum of operands one after another"] = torch.einsum("ij,kj->ik", m, o)
k["attention by einsum"] = torch.einsum("bqd,bkd->bqk", m.unsqueeze(0), o.unsqueeze(0)).softmax(-1)
k["gather of the free kind"] = torch.gather(w, 1, tensor([[0], [2], [1]]))
k["Q-values of the actions"] = m.gather(1, tensor([2, 0]).unsqueeze(1)).squeeze(1)
k["index_copy_"] = torch.zeros(3, 2).index_copy_(0, tensor([2, 0]), torch.ones(2, 2))
k["index_fill_"] = whole().index_fill_(1, tensor([0, 2]), -1)
k["index_fill"] = m.index_fill(0, tensor([1]), 0)
k["swapaxes"] = cube().swapaxes(0, 2)
k["swapdims"] = torch.swapdims(w, 0, 1)
k["tensor_split"] = torch.tensor_split(torch.arange(7), 3)[0]
k["tensor_split at places"] = w.tensor_split((1, 3), 1)[1]
k["unflatten"] = w.unflatten(1, (2, 2))
k["heads of an attention"] = torch.arange(24).view(2, 12).unflatten(-1, (3, -1)).transpose(0, 1)
k["unfold"] = torch.arange(8).unfold(0, 3, 2)
k["moving average"] = m.unfold(1, 2, 1).mean(-1)
k["slice to the end"] = w[:, 2:]
k["slice of the last ones"] = w[-2:]
k["tensor of an array"] = tensor([1.5, 2.5, 3.5])
k["tensor of an array of integers"] = tensor([4, 5, 6])

# Functions, sequences of different lengths, hooks and modes.
rnn = nn.utils.rnn
grid = lambda: torch.linspace(-1.5, 1.5, 12).view(1, 2, 3, 2)
k["F::one_hot"] = F.one_hot(tensor([0, 2, 1]), 4)
k["F::one_hot as floats"] = F.one_hot(tensor([1, 0])).float()
k["F::embedding"] = F.embedding(tensor([[1, 0]]), m)
k["F::grid_sample"] = F.grid_sample(image(), grid(), align_corners=False)
k["F::grid_sample with options"] = F.grid_sample(image(), grid(), mode="nearest", padding_mode="border", align_corners=True)
k["F::grid_sample, bicubic and reflected"] = F.grid_sample(image(), grid(), mode="bicubic", padding_mode="reflection", align_corners=False)
k["pad_sequence"] = rnn.pad_sequence([tensor([1, 2, 3]), tensor([4])])
k["pad_sequence, batch first"] = rnn.pad_sequence([tensor([1, 2, 3]), tensor([4])], True, -1)
k["pad_sequence on the left"] = rnn.pad_sequence([tensor([1, 2]), tensor([4])], batch_first=True, padding_side="left")
k["mask of lengths"] = torch.arange(4).unsqueeze(0) < tensor([2, 4]).unsqueeze(1)
k["pack_padded_sequence"] = rnn.pack_padded_sequence(w, tensor([4, 2, 1]), True).data
k["pad_packed_sequence"] = rnn.pad_packed_sequence(rnn.pack_padded_sequence(w, tensor([2, 4, 1]), True, False), True)[0]
k["pack_sequence"] = rnn.pack_sequence([tensor([1, 2]), tensor([3])]).data
k["unpad_sequence"] = rnn.unpad_sequence(w, tensor([3, 1, 2, 2]))[2]


def hooked(look):
    x = leaf()
    handle = x.register_hook(lambda g: g * 2)
    look(x, handle)
    return x.grad


k["register_hook"] = hooked(lambda x, handle: (x * x).sum().backward())
k["register_hook, removed"] = hooked(lambda x, handle: (handle.remove(), x.sum().backward()))
seen = []
y = leaf().exp()
y.register_hook(seen.append)
(y * 3).sum().backward()
k["register_hook that only looks"] = seen[0]
x = leaf()
loss = (x * x).sum()
loss.backward(retain_graph=True)
loss.backward()
k["backward that retains the graph"] = x.grad
x = leaf()
y = x * x
y.backward(torch.ones_like(y), retain_graph=True)
k["backward of a vector"] = x.grad


def grad_of(x, f):
    x.requires_grad_()
    f(x).backward()
    return x.grad


k["gradient through cumprod with a zero"] = grad_of(tensor([2.0, 0.0, 3.0, 4.0]), lambda x: x.cumprod(0).sum())
k["gradient through quantile"] = grad(lambda x: x.quantile(0.3))
k["gradient through unfold"] = grad(lambda x: x.unfold(1, 2, 1).pow(2).sum())
k["gradient through grid_sample"] = grad_of(grid(), lambda g: F.grid_sample(image(), g, align_corners=False).sum())
k["gradient through index_copy_"] = grad(
    lambda x: torch.zeros(3, 3).index_copy_(0, tensor([2, 0]), x * 2).pow(2).sum())
k["gradient through addcmul_"] = grad(lambda x: torch.ones(2, 3).addcmul_(x, x, value=0.5).sum())
k["padding_idx of F::embedding"] = grad(lambda x: F.embedding(tensor([0, 1, 1]), x, padding_idx=0).sum())
with torch.inference_mode():
    k["inference mode"] = tensor((leaf() * 2).requires_grad)
x = torch.zeros(2, requires_grad=True)
try:
    with torch.autograd.detect_anomaly():
        (x.sqrt() * 0).sum().backward()
except RuntimeError as error:
    k["detect_anomaly"] = tensor("Sqrt" in str(error))
torch.cuda.manual_seed(3)
k["manual_seed on every device"] = tensor(True)
k["synchronize where there is a GPU"] = tensor(True)

save_file({name: value.detach().clone().contiguous() for name, value in k.items()},
          pathlib.Path(__file__).parent / "idioms.safetensors")
print(len(k), "idioms with PyTorch", torch.__version__)
