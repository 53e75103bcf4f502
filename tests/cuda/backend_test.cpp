// The CUDA backend on a fake CUDA (fake_cuda.h): which bytes go where and in which order, whose memory is used, and
// what is multiplied. The tests show that the backend keeps CUDA's rules as the fake knows them, not that a GPU agrees.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <thread>

#include <lockstep/core/error.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/runtime/communicator.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/runtime/stream.h>
#include <lockstep/tensor/creation.h>

#include "cpu/parallel.h"
#include "cuda/fake_devices.h"

namespace lockstep {
namespace {

TEST(FakeCuda, HostCopiesOfAnySizeArriveAndTakeTheirBytesAtOnce) {
  const FakeDevices devices({.cards = {0, 1}});
  for (const std::size_t bytes : {std::size_t(1), std::size_t(4097), (std::size_t(9) << 20) + 5}) {
    Bytes values = numbered(bytes);
    const DeviceBytes there(1, values);
    std::ranges::fill(values, std::byte(0));
    EXPECT_EQ(there.get(), numbered(bytes));
  }
}

TEST(FakeCuda, RowsKeepTheirPitches) {
  const FakeDevices devices({.cards = {0}});
  const std::size_t kPitch = (5 << 20) + 64;
  for (const std::size_t row_bytes : {std::size_t(100), std::size_t(70'000), (std::size_t(5) << 20) + 7}) {
    const Bytes values = numbered(3 * kPitch);
    const DeviceBytes there(0, 3 * row_bytes);
    there.copy({.to = there.data(),
                .from = values.data(),
                .to_device = 0,
                .row_bytes = row_bytes,
                .rows = 3,
                .to_pitch = row_bytes,
                .from_pitch = kPitch});
    Bytes back(3 * kPitch), expected(3 * kPitch);
    there.copy({.to = back.data(),
                .from = there.data(),
                .from_device = 0,
                .row_bytes = row_bytes,
                .rows = 3,
                .to_pitch = kPitch,
                .from_pitch = row_bytes});
    for (std::size_t row = 0; row < 3; ++row)
      std::memcpy(expected.data() + row * kPitch, values.data() + row * kPitch, row_bytes);
    EXPECT_EQ(back, expected);
  }
}

// The pitch exceeds CUDA's limit for one copy (cudaDeviceProp::memPitch).
TEST(FakeCuda, RowsMayBeMoreThanTwoGibibytesApart) {
  const std::size_t kPitch = std::size_t(3) << 30;
  const FakeDevices devices({.cards = {0, 1}}, 2, true, 2 * kPitch);
  machine().address_only = true;
  const DeviceBytes source(0, kPitch + 8), on_same(0, 16), on_other(1, 16);
  for (const DeviceBytes* to : {&on_same, &on_other})
    source.copy({.to = to->data(),
                 .from = source.data(),
                 .to_device = to == &on_same ? 0 : 1,
                 .from_device = 0,
                 .row_bytes = 8,
                 .rows = 2,
                 .to_pitch = 8,
                 .from_pitch = kPitch});
}

TEST(FakeCuda, CopiesBetweenCardsAndOnOneCard) {
  const FakeDevices devices({.cards = {0, 1, 1}});
  const Bytes values = numbered(600);
  for (const auto& [from, to] : {std::pair{0, 1}, {2, 0}, {1, 2}, {0, 0}}) {
    const DeviceBytes source(from, values), dense(to, 600), rows(to, 600);
    source.copy({.to = dense.data(), .from = source.data(), .to_device = to, .from_device = from, .row_bytes = 600});
    source.copy({.to = rows.data(),
                 .from = source.data(),
                 .to_device = to,
                 .from_device = from,
                 .row_bytes = 10,
                 .rows = 30,
                 .to_pitch = 10,
                 .from_pitch = 20});
    card(from).backend.synchronize_stream(source.stream());
    EXPECT_EQ(dense.get(), values);
    const Bytes got = rows.get();
    for (std::size_t i = 0; i < 300; ++i) EXPECT_EQ(got[i], values[i / 10 * 20 + i % 10]);
  }
}

TEST(FakeCuda, TensorsMoveBetweenDevicesInTheOrderOfTheirStreams) {
  const FakeDevices devices({.cards = {0, 1}});
  const Tensor x = arange(1000);
  const Tensor there = x.to("cuda:0").to("cuda:1").to("cuda:0");
  EXPECT_EQ(there.to("cpu").to_vector<std::int64_t>(), x.to_vector<std::int64_t>());
}

TEST(FakeCuda, CardsWithoutRoomForAnotherPeerCopyThroughTheHost) {
  const FakeDevices devices({.cards = {0, 1}});
  machine().peers_full = true;
  const Tensor x = arange(1000);
  EXPECT_EQ(x.to("cuda:0").to("cuda:1").to("cpu").to_vector<std::int64_t>(), x.to_vector<std::int64_t>());
}

// So a test that reads unwritten memory sees NaN in its results. Also checks that a write affects only its own memory.
TEST(FakeCuda, FreshMemoryIsFullOfNaNs) {
  const FakeDevices devices({.cards = {0}});
  const Shape shape = {std::int64_t(5) << 18};  // 5 MiB
  const auto is_nan = [](float x) { return std::isnan(x); };
  EXPECT_TRUE(std::ranges::all_of(empty(shape, {.device = "cuda:0"}).to_vector<float>(), is_nan));
  const Tensor written = zeros(shape).to("cuda:0");
  const Tensor fresh = empty({std::int64_t(40) << 18}, {.device = "cuda:0"});
  EXPECT_EQ(written.to_vector<float>(), zeros(shape).to_vector<float>());
  EXPECT_TRUE(std::ranges::all_of(fresh.to_vector<float>(), is_nan));
}

TEST(FakeCuda, OtherCardsAreLeftAlone) {
  const FakeDevices devices({.cards = {1, 2}});
  std::thread([] {  // a new thread's current card is card 0
    const Tensor x = arange(1000).to("cuda:0");
    const cuda::Event event = Stream::default_stream("cuda:0").record();
    Stream::default_stream("cuda:1").wait(event);
    EXPECT_EQ((x + 1).to("cuda:1").to("cpu")[7].item<std::int64_t>(), 8);
    while (!event.query()) {
    }
    event.synchronize();
    Communicator({"cuda:0", "cuda:1"}).abort();
    synchronize("cuda:1");
  })
      .join();
  EXPECT_EQ(machine().contexts, (std::set<int>{1, 2}));
}

TEST(FakeCuda, ARefusedLaunchNamesTheDeviceAndNotItsCard) {
  const FakeDevices devices({.cards = {2}});
  const Tensor x = ones({8}, {.device = "cuda:0"});
  machine().trapped[2] = "a kernel stopped";
  try {
    x + x;
    ADD_FAILURE() << "no error";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.api, "cudaLaunchKernelEx");
    EXPECT_EQ(error.code, int(cudaErrorLaunchFailure));
    EXPECT_EQ(error.device, "cuda:0");
  }
  machine().trapped.clear();
}

TEST(FakeCuda, PinnedBuffersAreUsedAgain) {
  const FakeDevices devices({.cards = {0}});
  const DeviceBytes there(0, numbered(5000));
  there.get();
  const int before = machine().pinned_allocations;
  for (int i = 0; i < 10; ++i) there.get();
  EXPECT_EQ(machine().pinned_allocations, before);
}

// The backend sees only the pointer; the bytes show which memory was read.
TEST(FakeCuda, PinnedTensorsAreReadByTheCardItself) {
  const FakeDevices devices({.cards = {0, 1}});
  for (const char* const device : {"cuda:0", "cuda:1"}) {
    const Tensor x = arange(1000).pin_memory();
    auto* const values = x.data<std::int64_t>();
    synchronize(device);
    const int copies = machine().copies, buffers = machine().pinned_allocations;
    const Tensor there = x.to(device);
    EXPECT_EQ(machine().copies, copies + 1);
    EXPECT_EQ(machine().pinned_allocations, buffers);
    values[7] = 70;
    EXPECT_EQ(there[7].item<std::int64_t>(), 70);
    EXPECT_EQ(there[8].item<std::int64_t>(), 8);
  }
}

TEST(FakeCuda, RowsOfPinnedTensorsKeepTheirPitches) {
  const FakeDevices devices({.cards = {0}});
  const Tensor x = arange(60).view({6, 10}), pinned = x.pin_memory();
  EXPECT_EQ(pinned.narrow(1, 2, 3).to("cuda:0").to_vector<std::int64_t>(), x.narrow(1, 2, 3).to_vector<std::int64_t>());
  EXPECT_EQ(pinned.narrow(0, 2, 3).to("cuda:0").to_vector<std::int64_t>(), x.narrow(0, 2, 3).to_vector<std::int64_t>());
}

TEST(FakeCuda, PinnedRowsMayBeMoreThanTwoGibibytesApart) {
  const std::size_t kPitch = std::size_t(3) << 30;
  const FakeDevices devices({.cards = {0}}, 1, true, 2 * kPitch);
  machine().address_only = true;
  const DeviceBytes there(0, kPitch + 8);
  void* const pinned = card(0).backend.allocate_pinned(16);
  there.copy({.to = there.data(),
              .from = pinned,
              .to_device = 0,
              .row_bytes = 8,
              .rows = 2,
              .to_pitch = kPitch,
              .from_pitch = 8,
              .pinned = true});
  card(0).backend.synchronize_stream(there.stream());
  card(0).backend.deallocate_pinned(pinned, 16);
}

// The fake complains if memory is freed that a copy still has to read.
TEST(FakeCuda, PinnedMemoryStaysUntilItsCopiesHaveEnded) {
  const FakeDevices devices({.cards = {0, 1}});
  std::vector<Tensor> there;
  for (int i = 0; i < 3; ++i) {
    const Tensor x = full({1000}, double(i), {.pinned_memory = true});
    there.push_back(x.to("cuda:0"));
    there.push_back(x.to("cuda:1"));
  }
  for (std::size_t i = 0; i < there.size(); ++i)
    EXPECT_EQ(there[i].to_vector<float>(), std::vector<float>(1000, float(i / 2)));
  const int before = machine().pinned_allocations;
  for (int i = 0; i < 20; ++i) {
    full({1000}, 1., {.pinned_memory = true}).to("cuda:0");
    synchronize("cuda:0");
  }
  EXPECT_EQ(machine().pinned_allocations, before);
  there[0] = full({1000}, 1., {.pinned_memory = true}).to("cuda:0");  // still pending when the devices are destroyed
}

TEST(FakeCuda, ComplainsOfPinnedMemoryThatGoesTooEarly) {
  const FakeDevices devices({.cards = {0}});
  Backend& backend = card(0).backend;
  const DeviceBytes there(0, 100);
  void* const pinned = backend.allocate_pinned(100);
  there.copy({.to = there.data(), .from = pinned, .to_device = 0, .row_bytes = 100, .pinned = true});
  machine().address_only = true;  // the copy does not run
  backend.deallocate_pinned(pinned, 100);
  EXPECT_EQ(machine().complaint, "freed page-locked memory that a copy has still to read");
  backend.synchronize_stream(there.stream());
  machine().address_only = false;
  machine().complaint.clear();
}

TEST(FakeCuda, PinnedMemoryIsRefusedWhereThereIsNone) {
  const FakeDevices devices({.cards = {0}});
  machine().pinned_bytes = 10000;
  const Tensor x = full({1000}, 1., {.pinned_memory = true});
  EXPECT_THROW(full({2000}, 1., {.pinned_memory = true}), OutOfMemory);
  EXPECT_TRUE(full({1000}, 1., {.pinned_memory = true}).is_pinned());
}

TEST(FakeCuda, DevicesOnOneCardShareItsMemory) {
  const FakeDevices devices({.cards = {0, 0, 1}});
  EXPECT_EQ(properties(Device::cuda(0)).memory_bytes, machine().card_bytes / 2);
  EXPECT_EQ(properties(Device::cuda(2)).memory_bytes, machine().card_bytes);
  EXPECT_THROW(DeviceBytes(1, machine().card_bytes / 2 + 1), OutOfMemory);
  const DeviceBytes half(1, machine().card_bytes / 4);
  EXPECT_THROW(DeviceBytes(1, machine().card_bytes / 2), OutOfMemory);
}

TEST(FakeCuda, AnArenaIsTakenOnceAndNeverExceeded) {
  const FakeDevices devices({.cards = {0}, .arena_bytes = std::size_t(30) << 20});
  const DeviceBytes first(0, 100);
  const int before = machine().allocations;
  for (int i = 0; i < 3; ++i) {
    const DeviceBytes more(0, std::size_t(20) << 20);
    EXPECT_THROW(DeviceBytes(0, std::size_t(20) << 20), OutOfMemory);
  }
  empty_cache(Device::cuda(0));
  EXPECT_EQ(machine().allocations, before);
}

TEST(FakeCuda, AnArenaIsOfTheDevicesShare) {
  {
    const FakeDevices devices({.cards = {0, 0}, .arena_bytes = std::size_t(1) << 40});
    const DeviceBytes first(0, 100);
    EXPECT_THROW(DeviceBytes(1, 100), OutOfMemory);  // streams have taken some of the other half
  }
  const FakeDevices devices({.cards = {0, 0}, .arena_bytes = std::size_t(16) << 20});
  const DeviceBytes first(0, 100), second(1, 100);
}

TEST(FakeCuda, FreeingWaitsForTheDevice) {
  const FakeDevices devices({.cards = {0}});
  const DeviceBytes keeps(0, 100);
  {
    const DeviceBytes gone(0, numbered(std::size_t(11) << 20));
    gone.copy({.to = keeps.data(), .from = gone.data(), .to_device = 0, .from_device = 0, .row_bytes = 100});
  }
  empty_cache(Device::cuda(0));  // the fake complains of copies from freed memory
  EXPECT_EQ(keeps.get(), numbered(100));
}

// T: the type of the factors; Output: that of the result and the bias.
template <class T, class Output = T>
void expect_product(Matmul product) {
  const auto size = [&](std::int64_t rows, std::int64_t ld, std::int64_t stride) {
    return std::size_t(rows * ld + (product.batch - 1) * stride);
  };
  std::vector<T> a(size(product.transpose_a ? product.k : product.m, product.lda, product.stride_a) + 1),
      b(size(product.transpose_b ? product.n : product.k, product.ldb, product.stride_b) + 1);
  std::vector<Output> c(size(product.m, product.ldc, product.stride_c)), bias(std::size_t(product.n));
  const auto fill = []<class E>(std::vector<E>& values, int step) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = E(float(int(i) * step % 13 - 6));
  };
  fill(a, 5), fill(b, 7), fill(c, 3), fill(bias, 11);
  const auto bytes = []<class E>(const std::vector<E>& values) {
    const auto* const begin = reinterpret_cast<const std::byte*>(values.data());
    return Bytes(begin, begin + values.size() * sizeof(E));
  };
  const bool biased = product.bias != nullptr;
  const DeviceBytes a_there(0, bytes(a)), b_there(0, bytes(b)), c_there(0, bytes(c)), bias_there(0, bytes(bias));
  Matmul there = product;
  there.a = a_there.data(), there.b = b_there.data(), there.c = c_there.data();
  there.bias = biased ? bias_there.data() : nullptr;
  card(0).backend.matmul(c_there.stream(), there);
  product.a = a.data(), product.b = b.data(), product.c = c.data();
  product.bias = biased ? bias.data() : nullptr;
  host::matmul({}, product);
  const Bytes got = c_there.get();
  if (product.activation != Activation::gelu_tanh) {
    EXPECT_EQ(got, bytes(c)) << product.m << 'x' << product.n << 'x' << product.k << ' ' << product.transpose_a
                             << product.transpose_b << biased << " beta " << product.beta;
    return;
  }
  for (std::size_t i = 0; i < c.size(); ++i) {  // libraries round the formula differently
    Output element;
    std::memcpy(&element, got.data() + i * sizeof(Output), sizeof element);
    EXPECT_NEAR(element, c[i], 8 * std::numeric_limits<Output>::epsilon() * std::abs(c[i]) + 1e-6) << i << biased;
  }
}

// 4 x 3 matrices with gaps between them; the dtype is set later.
Matmul small_product(std::int64_t k, std::int64_t batch, const void* bias) {
  return {.m = 4,
          .n = 3,
          .k = k,
          .bias = bias,
          .lda = 9,
          .ldb = 8,
          .ldc = 7,
          .batch = batch,
          .stride_a = 50,
          .stride_b = 60,
          .stride_c = 40};
}

class FakeProducts : public ::testing::TestWithParam<bool> {};

TEST_P(FakeProducts, AreTheHostsForEveryLayout) {
  const FakeDevices devices({.cards = {0}});
  machine().epilogues = GetParam();
  const int marks_bias = 0;
  for (const DType dtype : {kFloat32, kFloat64})
    for (const std::int64_t k : {0, 1, 5})
      for (const bool ta : {false, true})
        for (const bool tb : {false, true})
          for (const std::int64_t batch : {1, 3})
            for (const double beta : {0.0, 1.0, 2.0})
              for (const bool biased : {false, true}) {
                if (biased && (beta != 0 || batch != 1)) continue;
                Matmul p = small_product(k, batch, biased ? &marks_bias : nullptr);
                p.dtype = dtype;
                p.transpose_a = ta;
                p.transpose_b = tb;
                p.alpha = 2;
                p.beta = beta;
                if (batch == 3) p.stride_b = 0;
                dtype == kFloat32 ? expect_product<float>(p) : expect_product<double>(p);
              }
}

// alpha needs more bits than 16-bit types have.
TEST_P(FakeProducts, OfSixteenBitsWriteFloat32) {
  const FakeDevices devices({.cards = {0}});
  machine().epilogues = GetParam();
  const int marks_bias = 0;
  for (const std::int64_t k : {0, 5})
    for (const std::int64_t batch : {1, 3})
      for (const bool transposed : {false, true})
        for (const double beta : {0.0, 1.0})
          for (const bool biased : {false, true}) {
            if (biased && (beta != 0 || batch != 1)) continue;
            Matmul p = small_product(k, batch, biased ? &marks_bias : nullptr);
            p.float32_output = true;
            p.transpose_a = transposed;
            p.alpha = 1.0 / 1024 + 1;
            p.beta = beta;
            p.dtype = kBFloat16;
            expect_product<BFloat16, float>(p);
            p.dtype = kFloat16;
            expect_product<Half, float>(p);
          }
}

// The gradients of a layer's weight and bias.
TEST_P(FakeProducts, SumTheRowsOfTheFirstFactor) {
  const FakeDevices devices({.cards = {0}});
  machine().epilogues = GetParam();
  for (const bool transposed : {false, true})
    for (const bool float32_output : {false, true}) {
      constexpr std::int64_t kM = 4, kN = 3, kK = 5;
      std::vector<BFloat16> a(kM * kK), b(kK * kN);
      for (std::size_t i = 0; i < a.size(); ++i) a[i] = BFloat16(float(int(i) * 5 % 13 - 6));
      for (std::size_t i = 0; i < b.size(); ++i) b[i] = BFloat16(float(int(i) * 7 % 13 - 6));
      const auto bytes = []<class E>(const std::vector<E>& values) {
        const auto* const begin = reinterpret_cast<const std::byte*>(values.data());
        return Bytes(begin, begin + values.size() * sizeof(E));
      };
      const std::size_t size = float32_output ? 4 : 2;
      const DeviceBytes a_there(0, bytes(a)), b_there(0, bytes(b)), c_there(0, Bytes(kM * kN * size)),
          sums_there(0, Bytes(kM * size));
      Matmul p = {.dtype = kBFloat16,
                  .float32_output = float32_output,
                  .m = kM,
                  .n = kN,
                  .k = kK,
                  .a = a_there.data(),
                  .b = b_there.data(),
                  .c = c_there.data(),
                  .row_sums = sums_there.data(),
                  .lda = transposed ? kM : kK,
                  .ldb = kN,
                  .ldc = kN,
                  .transpose_a = transposed};
      ASSERT_EQ(card(0).backend.has_row_sums(c_there.stream(), p), GetParam());
      ASSERT_EQ(card(0).backend.has_row_sums(c_there.stream(), p), GetParam());  // remembered
      if (!GetParam()) continue;
      card(0).backend.matmul(c_there.stream(), p);
      const auto value = [&](const Bytes& of, std::size_t i) {
        float wide;
        BFloat16 narrow;
        std::memcpy(float32_output ? static_cast<void*>(&wide) : &narrow, of.data() + i * size, size);
        return float32_output ? wide : float(narrow);
      };
      const Bytes c = c_there.get(), sums = sums_there.get();
      for (std::int64_t i = 0; i < kM; ++i) {
        const auto of_a = [&](std::int64_t k) { return float(a[std::size_t(transposed ? k * kM + i : i * kK + k)]); };
        float row = 0;
        for (std::int64_t k = 0; k < kK; ++k) row += of_a(k);
        EXPECT_EQ(value(sums, std::size_t(i)), row) << i;
        for (std::int64_t j = 0; j < kN; ++j) {
          float sum = 0;
          for (std::int64_t k = 0; k < kK; ++k) sum += of_a(k) * float(b[std::size_t(k * kN + j)]);
          EXPECT_EQ(value(c, std::size_t(i * kN + j)), float(BFloat16(sum))) << i << ',' << j;
        }
      }
    }
}

TEST_P(FakeProducts, EndWithAnActivation) {
  const FakeDevices devices({.cards = {0}});
  machine().epilogues = GetParam();
  const int marks_bias = 0;
  int products = 0;
  for (const std::int64_t k : {0, 5})
    for (const std::int64_t batch : {1, 3})
      for (const bool biased : {false, true})
        for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu_tanh}) {
          if (biased && batch != 1) continue;
          Matmul p = small_product(k, batch, biased ? &marks_bias : nullptr);
          p.alpha = 0.125;
          p.activation = activation;
          for (const DType dtype : {kFloat32, kFloat64}) {
            p.dtype = dtype;
            dtype == kFloat32 ? expect_product<float>(p) : expect_product<double>(p);
          }
          if (k > 0 && activation != Activation::none)  // cuBLASLt's GELU is not used in float64
            products += activation == Activation::relu ? 2 : 1;
        }
  EXPECT_EQ(machine().epilogues_used, GetParam() ? products : 0);
}
INSTANTIATE_TEST_SUITE_P(WithAndWithoutEpilogues, FakeProducts, testing::Bool());

}  // namespace
}  // namespace lockstep
