// A file is the old or the new one, whatever fails in between; a killed writer's temporary disturbs nobody.
#include <lockstep/io/atomic_file.h>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>
#include <vector>

#include "io/file_calls.h"
#include "support/must_end.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"

namespace lockstep {
namespace {

using testing::contents;
using testing::TemporaryFolder;
using testing::write_file;

using Names = std::set<std::string>;

void write_all(const std::filesystem::path& path, const std::string& bytes) {
  AtomicFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

// Counts calls, makes the nth fail, and writes at most `longest` bytes at once.
class FaultyCalls final : public FileCalls {
 public:
  int fail_at = 0;
  int code = EIO;
  std::size_t longest = SIZE_MAX;
  std::vector<std::string> calls;

  int open(const char* path, int flags, mode_t mode) override {
    return step("open") ? FileCalls::open(path, flags, mode) : -1;
  }
  ssize_t pwrite(int descriptor, const void* data, std::size_t bytes, off_t offset) override {
    return step("write") ? FileCalls::pwrite(descriptor, data, std::min(bytes, longest), offset) : -1;
  }
  int fsync(int descriptor) override { return step("fsync") ? FileCalls::fsync(descriptor) : -1; }
  int rename(const char* from, const char* to) override { return step("rename") ? FileCalls::rename(from, to) : -1; }

 private:
  bool step(const char* name) {
    calls.push_back(name);
    if (int(calls.size()) != fail_at) return true;
    errno = code;
    return false;
  }
};

TEST(AtomicFile, AppearsAtCommit) {
  const TemporaryFolder folder;
  const auto path = folder / "a";
  write_file(path, "old");
  AtomicFile file(path);
  file.write("new", 3);
  EXPECT_EQ(contents(path), "old");
  file.commit();
  EXPECT_EQ(contents(path), "new");
  EXPECT_EQ(folder.names(), Names{"a"});
}

TEST(AtomicFile, WithoutCommitLeavesWhatWasThere) {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  { AtomicFile(folder / "a").write("new", 3); }
  { AtomicFile(folder / "b").write("new", 3); }
  EXPECT_EQ(contents(folder / "a"), "old");
  EXPECT_EQ(folder.names(), Names{"a"});
}

TEST(AtomicFile, SynchronizesTheFileBeforeItHasTheNameAndTheFolderAfterwards) {
  const TemporaryFolder folder;
  FaultyCalls calls;
  const ReplaceFileCalls guard(calls);
  write_all(folder / "a", "new");
  EXPECT_EQ(calls.calls, (std::vector<std::string>{"open", "write", "fsync", "rename", "open", "fsync"}));
}

TEST(AtomicFile, EveryCallThatFailsIsAnIoErrorAndLeavesOneWholeFile) {
  for (const int code : {EIO, ENOSPC, EDQUOT, EACCES, EROFS})
    for (int nth = 1; nth <= 6; ++nth) {
      const TemporaryFolder folder;
      write_file(folder / "a", "old");
      FaultyCalls calls;
      calls.fail_at = nth;
      calls.code = code;
      const ReplaceFileCalls guard(calls);
      try {
        write_all(folder / "a", "new");
        FAIL() << nth;
      } catch (const IoError& error) {
        EXPECT_EQ(error.code, code);
        EXPECT_EQ(error.operation, calls.calls.back());
      }
      EXPECT_EQ(contents(folder / "a"), nth <= 4 ? "old" : "new");
      EXPECT_EQ(folder.names(), Names{"a"});
    }
}

TEST(AtomicFile, InterruptedAndShortWritesGoOn) {
  const TemporaryFolder folder;
  const std::string bytes(1000, 'x');
  for (int nth = 1; nth <= 20; ++nth) {
    FaultyCalls calls;
    calls.longest = 77;
    calls.fail_at = nth;
    calls.code = EINTR;
    const ReplaceFileCalls guard(calls);
    try {
      write_all(folder / "a", bytes);
    } catch (const IoError& error) {
      EXPECT_EQ(error.operation, "rename");  // rename is never interrupted
    }
    EXPECT_EQ(contents(folder / "a"), bytes);
  }
}

TEST(AtomicFile, AFullDiskLeavesTheOldFile) {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  struct rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { .rlim_cur = 100'000, .rlim_max = before.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  int code = 0;
  try {
    write_all(folder / "a", std::string(1'000'000, 'x'));
  } catch (const IoError& error) {
    code = error.code;
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(code, EFBIG);
  EXPECT_EQ(contents(folder / "a"), "old");
  EXPECT_EQ(folder.names(), Names{"a"});
}

TEST(AtomicFile, TakesOverTheTemporaryOfAKilledWriter) {
  const TemporaryFolder folder;
  write_file(folder / ".a.lockstep-tmp", std::string(100, 'x'));
  write_all(folder / "a", "new");
  EXPECT_EQ(contents(folder / "a"), "new");
  EXPECT_EQ(folder.names(), Names{"a"});
}

TEST(AtomicFile, WritersOfOneFileDoNotMix) {
  const TemporaryFolder folder;
  AtomicFile first(folder / "a"), second(folder / "a");
  EXPECT_EQ(folder.names().size(), 2u);
  first.write("first", 5);
  second.write("second", 6);
  second.commit();
  EXPECT_EQ(contents(folder / "a"), "second");
  first.commit();
  EXPECT_EQ(contents(folder / "a"), "first");
  EXPECT_EQ(folder.names(), Names{"a"});
}

TEST(AtomicFile, ManyWritersAtOnceLeaveOneWholeFile) {
  const TemporaryFolder folder;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        AtomicFile file(folder / "a");
        for (int part = 0; part < 10; ++part) file.write(std::string(100, char('a' + t)).data(), 100);
        file.commit();
        AtomicFile::remove_leftovers(folder.path());
      }
    });
  threads.clear();
  const std::string bytes = contents(folder / "a");
  ASSERT_EQ(bytes.size(), 1000u);
  EXPECT_EQ(bytes, std::string(1000, bytes[0]));
  EXPECT_EQ(folder.names(), Names{"a"});
}

TEST(AtomicFile, RemovesTheLeftoversOfKilledWritersAlone) {
  const TemporaryFolder folder;
  for (const char* name : {".a.lockstep-tmp", ".b.7.lockstep-tmp", ".c.tmp", "d.lockstep-tmp", "e"})
    write_file(folder / name, "x");
  AtomicFile alive(folder / "e");
  EXPECT_EQ(AtomicFile::remove_leftovers(folder.path()), 2);
  EXPECT_EQ(folder.names(), (Names{".c.tmp", ".e.lockstep-tmp", "d.lockstep-tmp", "e"}));
  alive.write("new", 3);
  alive.commit();
  EXPECT_EQ(contents(folder / "e"), "new");
}

TEST(AtomicFile, MayHaveTheLongestNameThereIs) {
  const TemporaryFolder folder;
  const std::string prefix(254, 'a');  // Linux allows at most 255 bytes
  AtomicFile first(folder / (prefix + '1'));
  write_all(folder / (prefix + '2'), "second");
  first.write("first", 5);
  first.commit();
  EXPECT_EQ(contents(folder / (prefix + '1')), "first");
  EXPECT_EQ(contents(folder / (prefix + '2')), "second");
  EXPECT_EQ(folder.names(), (Names{prefix + '1', prefix + '2'}));
}

TEST(AtomicFile, FollowsASymbolicLink) {
  const TemporaryFolder folder;
  write_file(folder / "target", "old");
  std::filesystem::create_symlink("target", folder / "link");
  write_all(folder / "link", "new");
  EXPECT_EQ(contents(folder / "target"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
}

TEST(AtomicFile, FollowsLinksToWhereThereIsNothingYet) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "runs");
  std::filesystem::create_symlink("runs/second", folder / "first");
  std::filesystem::create_symlink("../third", folder / "runs" / "second");
  write_all(folder / "first", "new");
  EXPECT_EQ(contents(folder / "third"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "runs" / "second"));
  std::filesystem::create_symlink("circle", folder / "circle");
  EXPECT_THROW(AtomicFile file(folder / "circle"), IoError);
}

TEST(AtomicFile, KeepsThePermissionsOfTheFileItReplaces) {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  using std::filesystem::perms;
  std::filesystem::permissions(folder / "a", perms::owner_read | perms::owner_write);
  write_all(folder / "a", "new");
  EXPECT_EQ(contents(folder / "a"), "new");
  EXPECT_EQ(std::filesystem::status(folder / "a").permissions(), perms::owner_read | perms::owner_write);
}

TEST(AtomicFile, NeverWaitsForAPipeAtTheTemporarysName) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / ".a.lockstep-tmp").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo((folder / ".b.lockstep-tmp").c_str(), 0600), 0);
  // so that writers can open the pipe
  const int reader = ::open((folder / ".b.lockstep-tmp").c_str(), O_RDONLY | O_NONBLOCK);
  testing::must_end({[&] {
    for (const char* name : {"a", "b"}) {
      write_all(folder / name, "new");
      EXPECT_EQ(contents(folder / name), "new");
    }
    EXPECT_EQ(AtomicFile::remove_leftovers(folder.path()), 0) << "pipes are nobody's leftovers";
  }});
  ::close(reader);
}

TEST(AtomicFile, LeavesAFileAloneWhoseHardLinkHasTheTemporarysName) {
  const TemporaryFolder folder;
  write_file(folder / "precious", "old");
  std::filesystem::create_hard_link(folder / "precious", folder / ".a.lockstep-tmp");
  write_all(folder / "a", "new");
  EXPECT_EQ(contents(folder / "precious"), "old");
  EXPECT_EQ(contents(folder / "a"), "new");
  EXPECT_EQ(AtomicFile::remove_leftovers(folder.path()), 0);
}

TEST(AtomicFile, RefusesAPathWithAByteZero) {
  const TemporaryFolder folder;
  const std::string name("a\0b", 3);
  EXPECT_THROW(AtomicFile file(folder / name), InvalidArgument);
  EXPECT_THROW(AtomicFile::remove_leftovers(folder / name), InvalidArgument);
  EXPECT_EQ(folder.names(), Names());
}

TEST(AtomicFile, RefusesWhatIsNoFile) {
  const TemporaryFolder folder;
  EXPECT_THROW(AtomicFile file(folder.path()), InvalidArgument);
  EXPECT_THROW(AtomicFile file("/dev/null"), InvalidArgument);
  EXPECT_EQ(testing::thrown<IoError>([&] { AtomicFile file(folder / "missing" / "a"); }),
            "[open] failed on " + (folder / "missing" / "a").string() +
                " with errno 2: No such file or directory (there is no folder \"" + (folder / "missing").string() +
                "\": make it first, with std::filesystem::create_directories)");
  EXPECT_THROW(AtomicFile file(folder / std::string(300, 'x')), IoError);
}

TEST(AtomicFile, IsWrittenOverAtAnyPlace) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "a");
  file.write_at(4, "data", 4);
  file.write("more", 4);
  file.write_at(0, "head", 4);
  file.write_at(6, "TA", 2);
  file.write(".", 1);
  file.commit();
  EXPECT_EQ(contents(folder / "a"), "headdaTAmore.");
}

TEST(AtomicFile, RefusesASymbolicLinkWhereAskedTo) {
  const TemporaryFolder folder;
  write_file(folder / "target", "old");
  std::filesystem::create_symlink("target", folder / "link");
  std::filesystem::create_symlink("nothing", folder / "dangling");
  EXPECT_THROW(AtomicFile file(folder / "link", Links::refuse), InvalidArgument);
  EXPECT_THROW(AtomicFile file(folder / "dangling", Links::refuse), InvalidArgument);
  EXPECT_EQ(contents(folder / "target"), "old");
  EXPECT_EQ(folder.names(), (Names{"target", "link", "dangling"}));
}

TEST(AtomicFile, ReplacesALinkThatAppearsLaterWhereItFollowsNone) {
  const TemporaryFolder folder;
  write_file(folder / "target", "old");
  AtomicFile file(folder / "a", Links::refuse);
  file.write("new", 3);
  std::filesystem::create_symlink("target", folder / "a");
  file.commit();
  EXPECT_EQ(contents(folder / "target"), "old");
  EXPECT_EQ(contents(folder / "a"), "new");
}

TEST(AtomicFile, MayBeInTheCurrentFolder) {
  const TemporaryFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  write_all("a", "new");
  std::filesystem::current_path(before);
  EXPECT_EQ(contents(folder / "a"), "new");
}

}  // namespace
}  // namespace lockstep
