// einsum, tensordot and the like: against other operations, and errors. tests/reference compares more values with
// PyTorch's.
#include <lockstep/ops/einsum.h>

#include <gtest/gtest.h>

#include "ops/checks.h"
#include "support/test_devices.h"
#include "support/thrown.h"

namespace lockstep::einsum_tests {
namespace {

using testing::thrown;
using testing::values;

TEST(Einsum, IsAMatrixProductOnDevices) {
  const TestDevices devices(1);
  const Tensor a = randn({2, 3, 4}, {.device = "cuda:0"}), b = randn({2, 5, 4}, {.device = "cuda:0"});
  EXPECT_EQ(values(einsum("bij,bkj->bik", {a, b})), values(bmm(a, b.transpose(1, 2).contiguous())));
}

TEST(Einsum, MultipliesIntegersThatItDoesNotSum) {
  EXPECT_EQ(values(einsum("i,j->ji", {tensor({1, 2}), tensor({3, 4})})), (std::vector<double>{3, 6, 4, 8}));
}

TEST(Einsum, TakesEmptySums) {
  EXPECT_EQ(values(einsum("ij,j->i", {zeros({2, 0}), zeros({0})})), (std::vector<double>{0, 0}));
}

TEST(Einsum, RefusesWhatIsNoEquation) {
  const Tensor x = zeros({3, 4});
  EXPECT_EQ(thrown<InvalidArgument>([&] { einsum("i1", {x}); }),
            "[einsum] expected an equation such as \"ij,jk->ik\", got \"i1\": '1' is no letter");
  EXPECT_EQ(thrown<InvalidArgument>([&] { einsum("ij->ik", {x}); }),
            "[einsum] expected an equation such as \"ij,jk->ik\", got \"ij->ik\": no operand has the result's 'k'");
  EXPECT_EQ(thrown<InvalidArgument>([&] { einsum("ij->ii", {x}); }),
            "[einsum] expected an equation such as \"ij,jk->ik\", got \"ij->ii\": the result has 'i' twice");
  EXPECT_EQ(thrown<InvalidArgument>([&] { einsum("ij,jk", {x}); }),
            "[einsum] expected 2 operands for \"ij,jk\", got 1");
  EXPECT_EQ(thrown<ShapeError>([&] { einsum("ijk", {x}); }),
            "[einsum] expected operand 0 of \"ijk\" to have 3 dimensions, got [3, 4]");
  EXPECT_EQ(thrown<ShapeError>([&] { einsum("ii", {x}); }),
            "[einsum] expected equal sizes for the letter 'i' in \"ii\", got [3, 4]");
  EXPECT_EQ(thrown<ShapeError>([&] {
              einsum("ij,jk", {x, x});
            }),
            "[einsum] expected sizes that agree in \"ij,jk\", got 4 and 3 for one of its dimensions");
}

TEST(Tensordot, RefusesSizesThatDoNotAgree) {
  EXPECT_EQ(thrown<ShapeError>([] {
              tensordot(zeros({3, 4}), zeros({3, 4}), {1}, {0});
            }),
            "[tensordot] expected dimensions [1] of a and [0] of b with equal sizes, got [3, 4] and [3, 4]");
  EXPECT_THROW(tensordot(zeros({3}), zeros({3})), ShapeError);
  EXPECT_THROW(tensordot(zeros({3, 3}), zeros({3, 3}), {0, 0}, {0, 1}), ShapeError);
}

TEST(Bilinear, RefusesSizesThatDoNotAgree) {
  EXPECT_EQ(thrown<ShapeError>([] {
              bilinear(zeros({2, 3}), zeros({2, 4}), zeros({5, 3, 3}));
            }),
            "[bilinear] expected a [..., in1], b [..., in2] and a weight [out, in1, in2], got [2, 3], [2, 4] and "
            "[5, 3, 3]");
}

TEST(RmsNorm, RefusesWhatDoesNotFit) {
  EXPECT_EQ(thrown<ShapeError>([] {
              rms_norm(zeros({2, 3}), {2});
            }),
            "[rms_norm] expected x to end in the sizes [2], got [2, 3]");
  EXPECT_EQ(thrown<ShapeError>([] {
              rms_norm(zeros({2, 3}), {3}, zeros({2}));
            }),
            "[rms_norm] expected a parameter of shape [3], got [2]");
  EXPECT_EQ(rms_norm(zeros({0, 3}), {3}).sizes(), (Shape{0, 3}));
}

}  // namespace
}  // namespace lockstep::einsum_tests
