#include "idioms/idioms.h"

namespace lockstep {

std::vector<Idiom> tensor_idioms() {
  return {
      {"zeros",
       [] {
         return zeros({2, 3});
       }},
      {"zeros of one size", [] { return zeros(3); }},
      {"zeros of a dtype",
       [] {
         return zeros({2, 2}, kInt64);
       }},
      {"zeros on a device",
       [] {
         return zeros({2, 2}, Device("cpu"));
       }},
      {"zeros of a vector of sizes",
       [] {
         std::vector<int64_t> sizes = {2, 3};
         return zeros(sizes);
       }},
      {"ones",
       [] {
         return ones({2, 3}, kDouble);
       }},
      {"full",
       [] {
         return full({2, 2}, 1.5);
       }},
      {"full of integers", [] { return full({2}, 7, kLong); }},
      {"eye", [] { return eye(3); }},
      {"eye of two sizes", [] { return eye(2, 3); }},
      {"arange", [] { return arange(5); }},
      {"arange from to", [] { return arange(1, 5); }},
      {"arange by steps", [] { return arange(0, 10, 3); }},
      {"arange of floats", [] { return arange(4, kFloat); }},
      {"arange of fractions", [] { return arange(0, 1, 0.25); }},
      {"linspace", [] { return linspace(-1, 1, 5); }},
      {"linspace of one", [] { return linspace(3, 7, 1); }},
      {"logspace", [] { return logspace(0, 3, 4); }},
      {"tensor of integers",
       [] {
         return tensor({1, 2, 3});
       }},
      {"tensor of floats",
       [] {
         return tensor({1.5, 2.5});
       }},
      {"tensor of a dtype",
       [] {
         return tensor({1, 2, 3}, kFloat);
       }},
      {"tensor of a matrix",
       [] {
         return tensor({{1, 2}, {3, 4}});
       }},
      {"tensor of bools",
       [] {
         return tensor({true, false});
       }},
      {"tensor of a number", [] { return tensor(3.5); }},
      {"tensor of a vector",
       [] {
         std::vector<float> values = {1, 2, 3};
         return tensor(values);
       }},
      {"from_blob",
       [] {
         float values[] = {1, 2, 3, 4};
         return from_blob(values, {2, 2}).clone();
       }},
      {"from_blob of integers",
       [] {
         std::vector<int64_t> values = {5, 6, 7};
         return from_blob(values.data(), 3, kLong).clone();
       }},
      {"zeros_like", [] { return zeros_like(whole()); }},
      {"ones_like of a dtype", [] { return ones_like(whole(), kFloat); }},
      {"full_like", [] { return full_like(matrix(), 2); }},
      {"new_zeros", [] { return whole().new_zeros({2}); }},
      {"new_full",
       [] {
         return matrix().new_full({2, 2}, 3);
       }},
      {"to a dtype", [] { return matrix().to(kInt64); }},
      {"to bool",
       [] {
         return tensor({0, 1, 2}).to(kBool);
       }},
      {"type_as", [] { return whole().type_as(matrix()); }},
      {"clone", [] { return matrix().clone(); }},
      {"view",
       [] {
         return whole().view({4, 3});
       }},
      {"view of -1", [] { return whole().view(-1); }},
      {"view with -1",
       [] {
         return whole().view({2, -1});
       }},
      {"view_as", [] { return arange(6).view_as(matrix()); }},
      {"reshape",
       [] {
         return whole().t().reshape({2, 6});
       }},
      {"flatten", [] { return whole().flatten(); }},
      {"flatten from a dimension",
       [] {
         return arange(24).view({2, 3, 4}).flatten(1);
       }},
      {"squeeze",
       [] {
         return zeros({1, 2, 1}).squeeze();
       }},
      {"squeeze a dimension",
       [] {
         return zeros({1, 2, 1}).squeeze(0);
       }},
      {"unsqueeze", [] { return matrix().unsqueeze(0); }},
      {"unsqueeze at the end", [] { return matrix().unsqueeze(-1); }},
      {"transpose", [] { return whole().transpose(0, 1); }},
      {"t", [] { return whole().t(); }},
      {"T", [] { return whole().T(); }},
      {"permute",
       [] {
         return arange(24).view({2, 3, 4}).permute({2, 0, 1});
       }},
      {"movedim",
       [] {
         return movedim(arange(24).view({2, 3, 4}), 0, 2);
       }},
      {"expand",
       [] {
         return tensor({{1}, {2}}).expand({2, 3});
       }},
      {"expand_as",
       [] {
         return tensor({1, 2, 3}).expand_as(matrix());
       }},
      {"repeat",
       [] {
         return tensor({1, 2}).repeat({2, 2});
       }},
      {"tile", [] { return whole().tile(2); }},
      {"repeat_interleave",
       [] {
         return tensor({1, 2}).repeat_interleave(2, 0);
       }},
      {"flip",
       [] {
         return whole().flip({0, 1});
       }},
      {"flip a dimension", [] { return whole().flip(1); }},
      {"roll", [] { return whole().roll(1, 0); }},
      {"tril", [] { return whole().tril(); }},
      {"triu", [] { return whole().triu(1); }},
      {"diag of a vector",
       [] {
         return diag(tensor({1, 2, 3}));
       }},
      {"diag of a matrix", [] { return diag(whole(), 1); }},
      {"diagonal", [] { return whole().diagonal(); }},
      {"cat",
       [] {
         return cat({matrix(), other()}, 0);
       }},
      {"cat columns",
       [] {
         return cat({matrix(), other()}, 1);
       }},
      {"stack",
       [] {
         return stack({matrix(), other()});
       }},
      {"chunk", [] { return whole().chunk(2, 1)[1]; }},
      {"split", [] { return whole().split(2)[1]; }},
      {"split into sizes",
       [] {
         return whole().split({1, 3}, 1)[1];
       }},
      {"unbind", [] { return whole().unbind(0)[2]; }},
      {"meshgrid",
       [] {
         return meshgrid({tensor({1, 2}), tensor({3, 4, 5})})[1];
       }},
      {"meshgrid by columns",
       [] {
         return meshgrid({tensor({1, 2}), tensor({3, 4, 5})}, {.indexing = "xy"})[1];
       }},
      {"rot90",
       [] {
         return rot90(whole(), 1, {0, 1});
       }},
      {"rot90 backwards",
       [] {
         return rot90(whole(), -1, {1, 0});
       }},
      {"in_features", [] { return tensor(nn::Linear(3, 5).in_features); }},
      {"out_channels", [] { return tensor(nn::Conv2d(3, 5, 1).out_channels); }},
      {"one_hot",
       [] {
         return one_hot(tensor({0, 2, 1}), 3);
       }},
      {"size", [] { return tensor(whole().size(1)); }},
      {"sizes as a vector", [] { return tensor(whole().sizes().vec()); }},
      {"numel and dim",
       [] {
         return tensor({whole().numel(), int64_t(whole().dim())});
       }},
      {"item", [] { return tensor(matrix()[0][1].item<float>()); }},
      {"item without a type", [] { return tensor({matrix()[0][1].item(), matrix().sum().item()}); }},
      {"accessor",
       [] {
         Tensor x = zeros({2, 2});
         auto a = x.accessor<float, 2>();
         for (int i = 0; i < 2; ++i)
           for (int j = 0; j < 2; ++j) a[i][j] = float(10 * i + j);
         return x;
       }},
      {"data_ptr",
       [] {
         Tensor x = arange(3, kFloat);
         x.data_ptr<float>()[1] = 9;
         return x;
       }},
      {"printed sizes equal",
       [] {
         return tensor(matrix().sizes() == Shape{2, 3});
       }},
      {"full of inferred integers",
       [] {
         return full({2, 2}, 7);
       }},
      {"full of bools", [] { return full({2}, true); }},
      {"full of inferred floats", [] { return full({2}, 7.); }},
      {"full of a large integer", [] { return full({2}, (int64_t(1) << 53) + 1); }},
      {"zeros on a kind of device",
       [] {
         return zeros({2, 2}, kCPU);
       }},
      {"a device by its kind", [] { return tensor(Device(kCUDA, 1).index()); }},
      {"to a kind of device", [] { return matrix().to(kCPU); }},
      {"to another", [] { return whole().to(matrix()); }},
      {"options", [] { return zeros({2}, whole().options()); }},
      {"scalar_type", [] { return tensor(matrix().scalar_type() == kFloat && whole().scalar_type() == kLong); }},
      {"stride",
       [] {
         return tensor({whole().stride(0), whole().stride(-1), whole().t().stride(0)});
       }},
      {"concat",
       [] {
         return concat({matrix(), other()}, 1);
       }},
      {"vstack of vectors",
       [] {
         return vstack({tensor({1, 2}), tensor({3, 4})});
       }},
      {"vstack of matrices",
       [] {
         return vstack({matrix(), other()});
       }},
      {"hstack of vectors",
       [] {
         return hstack({tensor({1, 2}), tensor({3})});
       }},
      {"hstack of matrices",
       [] {
         return hstack({matrix(), other()});
       }},
      {"hstack of numbers",
       [] {
         return hstack({tensor(1), tensor(2)});
       }},
  };
}

}  // namespace lockstep
