// Tensors as text. The expected texts are PyTorch's for the same values, with this library's dtype names.
#include <lockstep/tensor/tensor.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>

#include "support/test_devices.h"
#include "tensor/tensor_impl.h"

namespace lockstep {
namespace {

std::string printed(const Tensor& tensor) {
  std::ostringstream out;
  out << tensor;
  return out.str();
}

const double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Print, WritesScalarsWithoutBrackets) {
  EXPECT_EQ(printed(tensor(2.5)), "tensor(2.5000)");
  EXPECT_EQ(printed(tensor(2.0)), "tensor(2.)");
  EXPECT_EQ(printed(tensor(3)), "tensor(3)");
  EXPECT_EQ(printed(tensor(true)), "tensor(True)");
  EXPECT_EQ(printed(tensor(kNan)), "tensor(nan)");
}

TEST(Print, WritesWholeNumbersWithAPointAndOthersWithFourDigits) {
  EXPECT_EQ(printed(tensor({1., 2., 3.})), "tensor([1., 2., 3.])");
  EXPECT_EQ(printed(tensor({1., 2.5, -3.})), "tensor([ 1.0000,  2.5000, -3.0000])");
  EXPECT_EQ(printed(tensor({0.125, 0.00625, 0.03125, 2.00005}, {.dtype = kFloat64})),
            "tensor([0.1250, 0.0063, 0.0312, 2.0000], dtype=float64)");
  EXPECT_EQ(printed(tensor({-0., 0.})), "tensor([-0., 0.])");
}

TEST(Print, AlignsIntegers) {
  EXPECT_EQ(printed(tensor({1, -20, 300})), "tensor([  1, -20, 300])");
  EXPECT_EQ(printed(tensor({std::int64_t(1) << 62, std::int64_t(-1)})),
            "tensor([4611686018427387904,                  -1])");
}

TEST(Print, AlignsBooleans) {
  EXPECT_EQ(printed(tensor({true, false})), "tensor([ True, False])");
  EXPECT_EQ(printed(tensor({{true, true}})), "tensor([[True, True]])");
}

TEST(Print, TurnsToExponentsWhereDigitsWouldBeLost) {
  EXPECT_EQ(printed(tensor({1e-5, 1., 2.})), "tensor([1.0000e-05, 1.0000e+00, 2.0000e+00])");
  EXPECT_EQ(printed(tensor({1., 1e9})), "tensor([1.0000e+00, 1.0000e+09])");
  EXPECT_EQ(printed(tensor({0.5, 1000.})), "tensor([5.0000e-01, 1.0000e+03])");
  EXPECT_EQ(printed(tensor({1., 1000.})), "tensor([   1., 1000.])");
  EXPECT_EQ(printed(tensor({1., 1001.})), "tensor([1.0000e+00, 1.0010e+03])");
  EXPECT_EQ(printed(tensor({1e-4})), "tensor([1.0000e-04])");  // the float32 is a little less
  EXPECT_EQ(printed(tensor({1e8, 99999999.}, {.dtype = kFloat64})), "tensor([100000000.,  99999999.], dtype=float64)");
  EXPECT_EQ(printed(tensor({1e300, 1e299}, {.dtype = kFloat64})), "tensor([1.0000e+300, 1.0000e+299], dtype=float64)");
}

TEST(Print, WritesWhatIsNotFinite) {
  EXPECT_EQ(printed(tensor({kNan, 0.25, -kInfinity})), "tensor([   nan, 0.2500,   -inf])");
  EXPECT_EQ(printed(tensor({kNan, kInfinity, -kInfinity, 1.})), "tensor([nan, inf, -inf, 1.])");
  EXPECT_EQ(printed(tensor({1e9, kInfinity, 0.})), "tensor([1.0000e+09,        inf, 0.0000e+00])");
  EXPECT_EQ(printed(tensor({-kNan})), "tensor([nan])");
}

TEST(Print, NamesADtypeThatTheValuesDoNotTell) {
  EXPECT_EQ(printed(tensor({1, 2}, {.dtype = kUInt8})), "tensor([1, 2], dtype=uint8)");
  EXPECT_EQ(printed(tensor({1, 2}, {.dtype = kInt32})), "tensor([1, 2], dtype=int32)");
  EXPECT_EQ(printed(tensor({0.1, 0.2}, {.dtype = kFloat64})), "tensor([0.1000, 0.2000], dtype=float64)");
  EXPECT_EQ(printed(tensor({0.1, 0.2}, {.dtype = kFloat16})), "tensor([0.1000, 0.2000], dtype=float16)");
  EXPECT_EQ(printed(tensor({0.1}, {.dtype = kBFloat16})), "tensor([0.1001], dtype=bfloat16)");
}

TEST(Print, GivesTheSizeOfAnEmptyTensorUnlessItIsAVector) {
  EXPECT_EQ(printed(empty({0})), "tensor([])");
  EXPECT_EQ(printed(empty({0, 3})), "tensor([], size=(0, 3))");
  EXPECT_EQ(printed(empty({2, 0}, {.dtype = kInt64})), "tensor([], size=(2, 0), dtype=int64)");
  EXPECT_EQ(printed(empty({0}, {.dtype = kBool})), "tensor([], dtype=bool)");
}

TEST(Print, SaysWhenThereIsNoTensor) { EXPECT_EQ(printed(Tensor()), "tensor(<undefined>)"); }

TEST(Print, NestsDimensions) {
  EXPECT_EQ(printed(arange(24).reshape({2, 3, 4})), R"(tensor([[[ 0,  1,  2,  3],
         [ 4,  5,  6,  7],
         [ 8,  9, 10, 11]],

        [[12, 13, 14, 15],
         [16, 17, 18, 19],
         [20, 21, 22, 23]]]))");
}

TEST(Print, BreaksLongRows) {
  EXPECT_EQ(printed(arange(30)), R"(tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,
        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29]))");
}

TEST(Print, SummarizesMoreThanAThousandElements) {
  EXPECT_EQ(printed(arange(1001)), "tensor([   0,    1,    2,  ...,  998,  999, 1000])");
  EXPECT_EQ(printed(arange(2000).reshape({2, 1000})), R"(tensor([[   0,    1,    2,  ...,  997,  998,  999],
        [1000, 1001, 1002,  ..., 1997, 1998, 1999]]))");
  EXPECT_EQ(printed(arange(2000).reshape({1000, 2})), R"(tensor([[   0,    1],
        [   2,    3],
        [   4,    5],
        ...,
        [1994, 1995],
        [1996, 1997],
        [1998, 1999]]))");
  EXPECT_EQ(printed(arange(0, 1600, 1, {.dtype = kFloat32}).reshape({40, 40})),
            R"(tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 3.7000e+01, 3.8000e+01,
         3.9000e+01],
        [4.0000e+01, 4.1000e+01, 4.2000e+01,  ..., 7.7000e+01, 7.8000e+01,
         7.9000e+01],
        [8.0000e+01, 8.1000e+01, 8.2000e+01,  ..., 1.1700e+02, 1.1800e+02,
         1.1900e+02],
        ...,
        [1.4800e+03, 1.4810e+03, 1.4820e+03,  ..., 1.5170e+03, 1.5180e+03,
         1.5190e+03],
        [1.5200e+03, 1.5210e+03, 1.5220e+03,  ..., 1.5570e+03, 1.5580e+03,
         1.5590e+03],
        [1.5600e+03, 1.5610e+03, 1.5620e+03,  ..., 1.5970e+03, 1.5980e+03,
         1.5990e+03]]))");
  EXPECT_EQ(printed(arange(1008).reshape({7, 12, 12}).narrow(1, 4, 2).expand({7, 2, 12})),
            printed(arange(1008).reshape({7, 12, 12}).narrow(1, 4, 2).clone()));
}

TEST(Print, ChoosesTheFormatByWhatASummaryShows) {
  Tensor numbers = zeros({2000});
  numbers[1000].fill_(0.123);
  EXPECT_EQ(printed(numbers), "tensor([0., 0., 0.,  ..., 0., 0., 0.])");
}

TEST(Print, PutsAThousandElementsInFull) {
  const std::string text = printed(zeros({1000}));
  EXPECT_EQ(text.find("..."), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '0'), 1000);
}

TEST(Print, ReadsViewsInTheirOwnOrder) {
  EXPECT_EQ(printed(arange(6).reshape({2, 3}).t()), R"(tensor([[0, 3],
        [1, 4],
        [2, 5]]))");
  EXPECT_EQ(printed(tensor({1., 2.}).narrow(0, 0, 1).expand({3})), "tensor([1., 1., 1.])");
}

TEST(Print, NamesADeviceThatIsNotTheCpu) {
  const TestDevices devices(2);
  const Tensor numbers = tensor({{1.4067, 1.6026, 1.79}, {1.8645, 1.8511, 1.3288}}, {.device = "cuda:1"});
  EXPECT_EQ(printed(numbers), R"(tensor([[1.4067, 1.6026, 1.7900],
        [1.8645, 1.8511, 1.3288]], device='cuda:1'))");
  EXPECT_EQ(printed(empty({0}, {.dtype = kFloat64, .device = "cuda"})), "tensor([], device='cuda:0', dtype=float64)");
}

TEST(Print, CopiesOnlyWhatItShowsOfALargeTensor) {
  SimulatedDevices devices({.count = 1, .memory_bytes = 24 << 20});
  const Tensor numbers = arange(2400000, {.device = "cuda"}).reshape({300, 40, 200}).narrow(1, 3, 31);  // not dense
  EXPECT_EQ(printed(numbers).substr(0, 60), "tensor([[[    600,     601,     602,  ...,     797,     798,");
}

struct Recorded final : AutogradState {
  std::string_view grad_fn_name() const noexcept override { return "AddmmBackward"; }
  bool requires_grad() const noexcept override { return true; }
};

TEST(Print, NamesTheGradient) {
  const TestDevices devices(13);
  const Tensor leaf = tensor({1., 2.}, {.requires_grad = true});
  EXPECT_EQ(printed(leaf), "tensor([1., 2.], requires_grad=True)");
  const Tensor output = tensor({{0.1458}, {0.1458}}, {.device = "cuda"});
  output.impl()->autograd = std::make_unique<Recorded>();
  EXPECT_EQ(printed(output), R"(tensor([[0.1458],
        [0.1458]], device='cuda:0', grad_fn=<AddmmBackward>))");
  const Tensor wide = arange(0, 10, 1.25, {.dtype = kFloat64, .device = "cuda:12"});
  wide.impl()->autograd = std::make_unique<Recorded>();
  EXPECT_EQ(printed(wide), R"(tensor([0.0000, 1.2500, 2.5000, 3.7500, 5.0000, 6.2500, 7.5000, 8.7500],
       device='cuda:12', dtype=float64, grad_fn=<AddmmBackward>))");
}

TEST(Print, WritesWholeLinesToAStreamAsOneItem) {
  std::ostringstream out;
  out << "x = " << tensor({1, 2}) << '\n';
  EXPECT_EQ(out.str(), "x = tensor([1, 2])\n");
}

}  // namespace
}  // namespace lockstep
