// Errors keep their type and what they know while they travel.
#include <lockstep/core/error.h>

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace lockstep {
namespace {

TEST(Error, TakesContextInPlaceAndKeepsItsType) {
  try {
    try {
      throw ShapeError("[op] wrong");
    } catch (Error& error) {
      error.add_context("in replica 1 on cuda:1");
      throw;
    }
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "[op] wrong (in replica 1 on cuda:1)");
  }
}

TEST(Error, KeepsOtherFailures) {
  Error error("first");
  EXPECT_TRUE(error.attached().empty());
  error.attach(std::make_exception_ptr(DTypeError("second")));
  ASSERT_EQ(error.attached().size(), 1u);
  EXPECT_THROW(std::rethrow_exception(error.attached()[0]), DTypeError);
}

TEST(Error, CopiesWithoutThrowing) {
  EXPECT_TRUE(std::is_nothrow_copy_constructible_v<Error>);
  EXPECT_TRUE(std::is_nothrow_copy_constructible_v<ShapeError>);
}

TEST(Error, StillAnswersWhenItWasMovedFrom) {
  BackendError error("cudaMalloc", 2, "cuda:0", "out of memory");
  const BackendError taken = std::move(error);
  EXPECT_STREQ(error.what(), taken.what());
  error.add_context("later");
  EXPECT_TRUE(error.attached().empty());
}

TEST(Error, IsCaughtByItsFamily) {
  EXPECT_THROW(throw ShapeError("x"), InvalidArgument);
  EXPECT_THROW(throw DTypeError("x"), InvalidArgument);
  EXPECT_THROW(throw DeviceMismatch("x"), InvalidArgument);
  EXPECT_THROW(throw AutogradError("x"), Error);
  EXPECT_THROW(throw InvalidArgument("x"), std::exception);
}

TEST(OutOfMemory, SaysAllSizesInBytes) {
  const OutOfMemory error("cuda:1", {.requested = 100, .in_use = 200, .cached = 300, .limit = 400});
  EXPECT_EQ(error.sizes.cached, 300u);
  EXPECT_STREQ(error.what(),
               "[allocate] cuda:1 is out of memory: requested 100 bytes, in use 200, cached 300, limit 400");
}

TEST(BackendError, SaysCallCodeAndDevice) {
  const BackendError error("cudaMalloc", 2, "cuda:0", "out of memory");
  EXPECT_EQ(error.code, 2);
  EXPECT_STREQ(error.what(), "[cudaMalloc] failed on cuda:0 with code 2: out of memory");
}

TEST(FormatError, SaysWhere) {
  const FormatError error("net.safetensors", 8, "not JSON");
  EXPECT_EQ(error.offset, 8u);
  EXPECT_STREQ(error.what(), "[net.safetensors] at byte 8: not JSON");
}

}  // namespace
}  // namespace lockstep
