#include "idioms/idioms.h"

namespace lockstep {

std::vector<Idiom> indexing_idioms() {
  return {
      {"element", [] { return whole()[1][2]; }},
      {"row", [] { return whole()[-1]; }},
      {"slice", [] { return whole().slice(1, 1, 3); }},
      {"narrow", [] { return whole().narrow(0, 1, 2); }},
      {"select", [] { return whole().select(1, 0); }},
      {"index row", [] { return whole().index({1}); }},
      {"index column",
       [] {
         return whole().index({Slice(), 1});
       }},
      {"index from", [] { return whole().index({Slice(1, None)}); }},
      {"index to",
       [] {
         return whole().index({Slice(None, 2), Slice(None, 3)});
       }},
      {"index by steps",
       [] {
         return whole().index({Slice(), Slice(None, None, 2)});
       }},
      {"index negative", [] { return whole().index({Slice(-2, None)}); }},
      {"index ellipsis",
       [] {
         return whole().index({Ellipsis, 0});
       }},
      {"index none",
       [] {
         return whole().index({None, 0});
       }},
      {"mask", [] { return whole().index({whole() > 5}); }},
      {"mask in brackets", [] { return whole()[whole() > 5]; }},
      {"mask of rows",
       [] {
         return whole().index({tensor({true, false, true})});
       }},
      {"mask of rows, slice",
       [] {
         return whole().index({tensor({true, false, true}), Slice(1, 3)});
       }},
      {"rows by indices",
       [] {
         return whole().index({tensor({2, 0, 2})});
       }},
      {"rows in brackets",
       [] {
         return whole()[tensor({2, 0})];
       }},
      {"columns by indices",
       [] {
         return whole().index({Slice(), tensor({3, 0})});
       }},
      {"pairs of indices",
       [] {
         return whole().index({tensor({0, 1, 2}), tensor({3, 2, 1})});
       }},
      {"negative indices", [] { return whole().index({tensor({-1})}); }},
      {"indices that broadcast",
       [] {
         return whole().index({tensor({{0}, {2}}), tensor({1, 3})});
       }},
      {"indices apart",
       [] {
         return arange(24).view({2, 3, 4}).index({tensor({0, 1}), Slice(), tensor({2, 3})});
       }},
      {"indices in the middle",
       [] {
         return arange(24).view({2, 3, 4}).index({Slice(), tensor({2, 0}), Slice(0, 2)});
       }},
      {"index and indices",
       [] {
         return arange(24).view({2, 3, 4}).index({1, tensor({0, 2})});
       }},
      {"write a row",
       [] {
         Tensor x = whole();
         x[0] = 0;
         return x;
       }},
      {"write a row of another",
       [] {
         Tensor x = whole();
         x[1] = tensor({9, 8, 7, 6});
         return x;
       }},
      {"write a slice",
       [] {
         Tensor x = whole();
         x.index({Slice(), Slice(0, 2)}) = -1;
         return x;
       }},
      {"index_put_ a slice",
       [] {
         Tensor x = whole();
         x.index_put_({Slice(), 1}, 5);
         return x;
       }},
      {"index_put_ a mask",
       [] {
         Tensor x = whole();
         x.index_put_({x > 5}, 0);
         return x;
       }},
      {"index_put_ indices",
       [] {
         Tensor x = zeros({3, 3});
         x.index_put_({tensor({0, 2}), tensor({1, 2})}, tensor({4., 5.}));
         return x;
       }},
      {"index_put_ adds",
       [] {
         Tensor x = zeros(3);
         x.index_put_({tensor({0, 2, 0})}, tensor({1., 2., 3.}), true);
         return x;
       }},
      {"index_put_ rows",
       [] {
         Tensor x = whole();
         x.index_put_({tensor({2, 0})}, tensor({1, 2, 3, 4}));
         return x;
       }},
      {"masked_fill", [] { return whole().masked_fill(whole() > 5, -1); }},
      {"masked_fill_ for attention",
       [] { return matrix().masked_fill_(matrix() == 3, -std::numeric_limits<double>::infinity()); }},
      {"masked_select", [] { return whole().masked_select(whole() % 2 == 0); }},
      {"nonzero", [] { return (whole() > 8).nonzero(); }},
      {"index_select",
       [] {
         return whole().index_select(1, tensor({0, 3}));
       }},
      {"gather",
       [] {
         return whole().gather(1, tensor({{0}, {2}, {1}}));
       }},
      {"scatter",
       [] {
         return zeros({2, 3}).scatter(1, tensor({{0}, {2}}), tensor({{5.}, {6.}}));
       }},
      {"scatter_ a number",
       [] {
         return zeros({2, 3}).scatter_(1, tensor({{1}, {2}}), 1);
       }},
      {"scatter_add",
       [] {
         return zeros(3).scatter_add(0, tensor({0, 2, 0}), tensor({1., 2., 3.}));
       }},
      {"scatter_add_",
       [] {
         return ones({3}).scatter_add_(0, tensor({1, 1}), tensor({1., 2.}));
       }},
      {"sort", [] { return matrix().sort().values; }},
      {"sort descending", [] { return matrix().sort(1, true).indices; }},
      {"argsort", [] { return matrix().argsort(0); }},
      {"topk", [] { return matrix().topk(2).values; }},
      {"topk indices", [] { return topk(matrix(), 2, 1).indices; }},
      {"topk least", [] { return matrix().topk(1, 0, false).values; }},
      {"unique",
       [] {
         return tensor({3, 1, 3, 2}).unique();
       }},
      {"unique counts",
       [] {
         return unique(tensor({3, 1, 3, 2})).counts;
       }},
      {"unique inverse",
       [] {
         return unique(tensor({{3, 1}, {3, 2}})).inverse;
       }},
      {"bincount",
       [] {
         return bincount(tensor({0, 2, 2, 4}));
       }},
      {"bincount of weights",
       [] {
         return bincount(tensor({0, 1, 1}), tensor({0.5, 1., 2.}), 4);
       }},
      {"confusion matrix",
       [] {
         Tensor target = tensor({0, 1, 1, 2}), predicted = tensor({0, 1, 2, 2});
         return bincount(target * 3 + predicted, {}, 9).view({3, 3});
       }},
      {"multinomial of one choice",
       [] {
         return multinomial(tensor({0., 0., 1.}), 4, true);
       }},
      {"multinomial of all",
       [] {
         return multinomial(tensor({1., 2., 3.}), 3).sort().values;
       }},
      {"bernoulli of certain ones",
       [] {
         return bernoulli(tensor({0., 1., 1.}));
       }},
      {"bernoulli_ of one", [] { return zeros(3).bernoulli_(1); }},
      {"uniform_ of nothing", [] { return empty(3).uniform_(2, 2); }},
      {"normal_ without spread", [] { return empty(3).normal_(5, 0); }},
      {"normal of means without spread", [] { return normal(matrix(), 0); }},
      {"randint of one", [] { return randint(1, {3}); }},
      {"randperm sorted", [] { return randperm(5).sort().values; }},
      {"rand in range", [] { return ((rand(1000) >= 0) & (rand(1000) < 1)).all(); }},
      {"ellipsis as text",
       [] {
         return whole().index({"...", 0});
       }},
      {"text, slice and indices",
       [] {
         return arange(24).view({2, 3, 4}).index({"...", tensor({3, 0})});
       }},
      {"index_put_ behind an ellipsis",
       [] {
         return whole().index_put_({"...", 1}, 5);
       }},
      {"index_add_",
       [] {
         return ones({3, 2}).index_add_(0, tensor({2, 0, 2}), arange(6, kFloat).view({3, 2}));
       }},
      {"index_add of columns, scaled",
       [] {
         return matrix().index_add(1, tensor({0, 0}), ones({2, 2}), 2);
       }},
      {"randperm of a dtype", [] { return randperm(4, kInt).sort().values; }},
  };
}

}  // namespace lockstep
