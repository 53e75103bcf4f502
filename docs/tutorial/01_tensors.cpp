// Chapter 1: tensors.
#include <lockstep/lockstep.h>
using namespace lockstep;

int main() {
  Tensor x = tensor({{1., 2., 3.}, {4., 5., 6.}});
  Tensor y = ones({2, 3});
  print("x has sizes {}, dtype {}, and is on {}\n", x.sizes(), x.dtype(), x.device());
  print("x + 2 * y = {}\n", x + 2 * y);

  Tensor row = x[1];                      // a view of x
  row[0] = 40;                            // writes into x, because row[0] is not a name
  Tensor column = x.index({Slice(), 2});  // the last column, a view too
  Tensor apart = x.clone();               // has elements of its own
  apart.fill_(0);
  print("x = {}\nits last column = {}\n", x, column);

  Tensor means = mean(x, {0});  // over dimension 0: the mean of each column
  Tensor centered = x - means;  // [2, 3] - [3]: the row is taken from each row
  print("means of columns = {}\ncentered = {}\n", means, centered);
  print("{} of {} elements are greater than 3\n", sum(x > 3).item<int64_t>(), x.numel());

  const Device device = try_gpu();  // cuda:0, or the CPU where there is no GPU
  Tensor there = x.to(device);
  print("the sum, computed on {}, is {}\n", device, sum(there).item<double>());

  Tensor w = tensor({1., 2., 3.}, {.device = device, .requires_grad = true});
  Tensor loss = sum(w * w);
  loss.backward();
  print("the gradient of the sum of squares is {}\n", w.grad().cpu());

  try {
    x + ones({2, 4});
  } catch (const ShapeError& error) {
    print("{}\n", error.what());
  }
}
