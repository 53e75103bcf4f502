// Loading a vendor library at its first use, with libraries that every system has.
#include "backends/cuda/vendor_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include <lockstep/core/error.h>

#include "support/temporary_folder.h"

namespace lockstep::gpu {
namespace {

using Function = double(double);

constexpr const char* kMath = "libm.so.6";
constexpr const char* kNowhere = "libthat_is_nowhere.so.13";

// Returns the message of the BackendError that body throws; its call must be `api`.
template <class Body>
std::string message_of(const char* api, Body body) {
  try {
    body();
  } catch (const BackendError& error) {
    EXPECT_EQ(error.api, api);
    EXPECT_EQ(error.device, "cuda");
    return error.what();
  }
  return "no error";
}

void expect_words(const std::string& message, std::initializer_list<const char*> words) {
  for (const char* word : words) EXPECT_NE(message.find(word), std::string::npos) << word << " in " << message;
}

// A library in a folder that the system's loader does not search.
class VendorLibraryElsewhere : public ::testing::Test {
 protected:
  void SetUp() override {
    VendorLibrary({"mathematics", kMath, ""}).load_symbol(cosine_, "cos");
    Dl_info about;
    ASSERT_NE(dladdr(reinterpret_cast<const void*>(cosine_), &about), 0);
    math_ = std::filesystem::canonical(about.dli_fname);
  }

  const lockstep::testing::TemporaryFolder folder_;
  std::filesystem::path math_;
  Function* cosine_ = nullptr;
};

TEST(VendorLibrary, IsFoundByTheSystemsLoader) {
  Function* cosine = nullptr;
  VendorLibrary({"mathematics", kMath, "/no/such/folder"}).load_symbol(cosine, "cos");
  EXPECT_EQ(cosine(0), 1);
}

TEST_F(VendorLibraryElsewhere, IsFoundInItsFolder) {
  std::filesystem::create_symlink(math_, folder_ / kNowhere);
  Function* cosine = nullptr;
  VendorLibrary({"mathematics", kNowhere, folder_.path().string()}).load_symbol(cosine, "cos");
  EXPECT_EQ(cosine, cosine_);
}

// The test loads a copy of the mathematical library under another soname, which the loader does not find.
TEST_F(VendorLibraryElsewhere, IsTheCopyThatThisProcessHasLoaded) {
  std::string bytes = lockstep::testing::contents(math_);
  const std::string copys_name = "libq.so.6";
  for (std::size_t at = 0; (at = bytes.find(kMath, at)) != std::string::npos; at += copys_name.size())
    bytes.replace(at, copys_name.size(), copys_name);
  lockstep::testing::write_file(folder_ / "a_copy", bytes);
  EXPECT_THROW(VendorLibrary({"mathematics", copys_name, ""}), BackendError);
  void* const copy = dlopen((folder_ / "a_copy").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(copy, nullptr) << dlerror();
  Function* cosine = nullptr;
  VendorLibrary({"mathematics", copys_name, ""}).load_symbol(cosine, "cos");
  EXPECT_NE(cosine, cosine_);
  EXPECT_EQ(cosine, reinterpret_cast<Function*>(dlsym(copy, "cos")));
}

TEST(VendorLibrary, ThatIsNotThereIsABackendErrorThatSaysWhatToDo) {
  const std::string message = message_of("dlopen", [] { VendorLibrary({"Mathematics 7", kNowhere, "/no/folder"}); });
  expect_words(message, {"libthat_is_nowhere.so.13: cannot open shared object file", "install Mathematics 7",
                         "/no/folder/libthat_is_nowhere.so.13: cannot open", "LD_LIBRARY_PATH"});
}

TEST(VendorLibrary, WithoutAFunctionIsABackendErrorThatNamesIt) {
  const VendorLibrary library({"Mathematics 7", kMath, ""});
  Function* function = nullptr;
  const std::string message = message_of("dlsym", [&] { library.load_symbol(function, "third_hand_of_a_clock"); });
  expect_words(message, {kMath, "third_hand_of_a_clock", "install Mathematics 7"});
  EXPECT_EQ(function, nullptr);
}

}  // namespace
}  // namespace lockstep::gpu
