// Errors keep their type, message and fields while they propagate.
#include <lockstep/core/error.h>

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <lockstep/core/print.h>

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

void print_and_throw() {
  print("printed {}\n", 1);
  std::cout << "and to cout\n";
  throw ShapeError("nobody catches it");
}

// Output to a pipe is buffered until it is flushed, which abort() does not do.
TEST(UncaughtError, LosesNothingThatWasPrintedBeforeIt) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[1]), ::close(STDERR_FILENO);
    []() noexcept { print_and_throw(); }();
  }
  ::close(ends[1]);
  std::string text(100, '\0');
  std::size_t size = 0;
  for (ssize_t got; (got = ::read(ends[0], text.data() + size, text.size() - size)) > 0;) size += std::size_t(got);
  ::close(ends[0]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) << status;
  EXPECT_EQ(text.substr(0, size), "printed 1\nand to cout\n");
}

}  // namespace
}  // namespace lockstep
