#include <array>
#include <tuple>

#include "idioms/idioms.h"

namespace lockstep {

std::vector<Idiom> order_idioms() {
  return {
      {"cumprod", [] { return whole().slice(0, 1).cumprod(1); }},
      {"free cumprod", [] { return cumprod(positive(), 0); }},
      {"discounted weights", [] { return full({4}, 0.9).cumprod(0); }},
      {"alphas of a diffusion", [] { return cumprod(1 - linspace(1e-4, 0.02, 10), 0).sqrt(); }},
      {"diff",
       [] {
         return tensor({1, 4, 9, 16}).diff();
       }},
      {"diff twice", [] { return matrix().diff(2, 1); }},
      {"diff with a zero in front",
       [] {
         return diff(tensor({1, 4, 9}), 1, 0, zeros({1}, kInt64));
       }},
      {"quantile", [] { return matrix().quantile(0.25); }},
      {"quantile of a dimension", [] { return quantile(matrix(), 0.5, 1, true); }},
      {"quantiles",
       [] {
         return quantile(matrix(), tensor({0.25, 0.75}), 1);
       }},
      {"quantile, the lower one", [] { return matrix().quantile(0.4, 1, false, "lower"); }},
      {"kthvalue", [] { return matrix().kthvalue(2).values; }},
      {"kthvalue place", [] { return std::get<1>(kthvalue(matrix(), 2, 1)); }},
      {"searchsorted",
       [] {
         return searchsorted(tensor({1, 3, 5, 7}), tensor({{0, 3}, {6, 9}}));
       }},
      {"searchsorted right",
       [] {
         return searchsorted(tensor({1, 3, 5, 7}), tensor({3, 6}), {.right = true});
       }},
      {"searchsorted by side",
       [] {
         return searchsorted(tensor({1., 3., 5.}), 3, {.side = "right"});
       }},
      {"inverse transform sampling",
       [] {
         return searchsorted(tensor({0.1, 0.2, 0.7}).cumsum(0), tensor({0.05, 0.5, 0.95}));
       }},
      {"bucketize",
       [] {
         return bucketize(matrix(), tensor({-3., 0., 3.}));
       }},
      {"bucketize right",
       [] {
         return bucketize(whole(), tensor({3, 6, 9}), {.out_int32 = true, .right = true});
       }},
      {"histc", [] { return histc(matrix(), 4, -6, 6); }},
      {"histc of its own range", [] { return matrix().histc(3); }},
      {"var_mean", [] { return std::get<0>(var_mean(matrix(), 1)); }},
      {"var_mean, the mean of all", [] { return std::get<1>(var_mean(matrix())); }},
      {"nan_to_num", [] { return nan_to_num(matrix() / 0); }},
      {"nan_to_num in place", [] { return (zeros({2}) / 0).nan_to_num_(7); }},
      {"fmod", [] { return fmod(matrix(), 4); }},
      {"fmod of tensors", [] { return matrix().fmod(other()); }},
      {"clip", [] { return matrix().clip(-1, 2); }},
      {"clip from below", [] { return clip(matrix(), 0); }},
      {"clip in place", [] { return matrix().clip_(-2, 2); }},
      {"addcmul", [] { return addcmul(matrix(), other(), positive(), 0.5); }},
      {"addcmul_", [] { return matrix().addcmul_(other(), other(), 2); }},
      {"addcdiv_ of an Adam step", [] { return matrix().addcdiv_(other(), positive().sqrt().add_(1e-8), -0.01); }},
      {"mv", [] { return mv(matrix(), other()[0]); }},
      {"einsum of operands one after another", [] { return einsum("ij,kj->ik", matrix(), other()); }},
      {"attention by einsum",
       [] { return einsum("bqd,bkd->bqk", matrix().unsqueeze(0), other().unsqueeze(0)).softmax(-1); }},
      {"gather of the free kind",
       [] {
         return gather(whole(), 1, tensor({{0}, {2}, {1}}));
       }},
      {"Q-values of the actions",
       [] {
         return matrix().gather(1, tensor({2, 0}).unsqueeze(1)).squeeze(1);
       }},
      {"index_copy_",
       [] {
         return zeros({3, 2}).index_copy_(0, tensor({2, 0}), ones({2, 2}));
       }},
      {"index_fill_",
       [] {
         return whole().index_fill_(1, tensor({0, 2}), -1);
       }},
      {"index_fill", [] { return matrix().index_fill(0, tensor({1}), 0); }},
      {"swapaxes",
       [] {
         return arange(24).view({2, 3, 4}).swapaxes(0, 2);
       }},
      {"swapdims", [] { return swapdims(whole(), 0, 1); }},
      {"tensor_split", [] { return tensor_split(arange(7), 3)[0]; }},
      {"tensor_split at places",
       [] {
         return whole().tensor_split({1, 3}, 1)[1];
       }},
      {"unflatten",
       [] {
         return whole().unflatten(1, {2, 2});
       }},
      {"heads of an attention",
       [] {
         return arange(24).view({2, 12}).unflatten(-1, {3, -1}).transpose(0, 1);
       }},
      {"unfold", [] { return arange(8).unfold(0, 3, 2); }},
      {"moving average", [] { return matrix().unfold(1, 2, 1).mean(-1); }},
      {"slice to the end", [] { return whole().slice(1, 2); }},
      {"slice of the last ones", [] { return whole().slice(0, -2); }},
      {"tensor of an array",
       [] {
         return tensor(std::array{1.5f, 2.5f, 3.5f});
       }},
      {"tensor of an array of integers",
       [] {
         return tensor(std::array<int, 3>{4, 5, 6});
       }},
  };
}

}  // namespace lockstep
