#include <lockstep/distributed/world.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>

#include <lockstep/core/error.h>

#include "core/text.h"
#include "distributed/transport.h"

namespace lockstep {
namespace {

constexpr int kChannel = 0;
constexpr const char* kErrorOfAll = "an error that all processes throw";
const std::string kThisHost = "this host";

// A call sends its bytes to a process in one or two messages. This is the first: the number of bytes, the name of the
// call (cut to fit `what`), and as many of the bytes as fit `first`. The second message has the other bytes, if any.
struct Frame {
  std::uint64_t size = 0;
  char what[40] = {};
  char first[56] = {};

  explicit Frame(const char* name = "") { std::string_view(name).copy(what, sizeof what - 1); }
};

// Sends the same bytes to any number of processes. The bytes must stay unchanged until wait().
class Sending {
 public:
  Sending(const std::string& bytes, const char* what) : bytes_(bytes), frame_(what), what_(what) {
    frame_.size = bytes.size();
    std::memcpy(frame_.first, bytes.data(), along());
  }
  void to(Transport& transport, int process) {
    messages_.push_back(transport.send(process, kChannel, &frame_, sizeof frame_));
    if (const std::size_t rest = bytes_.size() - along())
      messages_.push_back(transport.send(process, kChannel, bytes_.data() + along(), rest));
  }
  void wait() {
    for (const PendingMessage& message : messages_) message->wait(what_);
  }

 private:
  std::size_t along() const { return std::min(bytes_.size(), sizeof frame_.first); }

  const std::string& bytes_;
  Frame frame_;
  const char* const what_;
  std::vector<PendingMessage> messages_;
};

[[noreturn]] void fail_mixed_up(Transport& transport, int from, const char* other, const char* what) {
  const auto name = [&](int process) { return text("process ", process, " on ", transport.host(process)); };
  const std::string reason =
      text("collective mismatch: ", name(from), " called \"", other, "\" while ", name(transport.rank()), " called \"",
           what, "\". All processes must make the same calls in the same order");
  transport.fail(reason);
  throw CollectiveError(from, what, 0, reason);
}

std::string receive(Transport& transport, int from, const char* what) {
  Frame frame;
  transport.receive(from, kChannel, &frame, sizeof frame)->wait(what);
  if (std::string_view(frame.what) != Frame(what).what) fail_mixed_up(transport, from, frame.what, what);
  std::string bytes(frame.size, '\0');
  const std::size_t along = std::min(bytes.size(), sizeof frame.first), rest = bytes.size() - along;
  std::memcpy(bytes.data(), frame.first, along);
  if (rest) transport.receive(from, kChannel, bytes.data() + along, rest)->wait(what);
  return bytes;
}

}  // namespace

World::World(std::shared_ptr<Transport> transport) : transport_(std::move(transport)) {}

ProcessRank World::rank() const noexcept { return ProcessRank(transport_ ? transport_->rank() : 0); }
int World::size() const noexcept { return transport_ ? transport_->size() : 1; }
const std::string& World::host(ProcessRank process) const {
  return transport_ ? transport_->host(process.value()) : kThisHost;
}
std::chrono::milliseconds World::time_limit() const noexcept {
  return transport_ ? transport_->time_limit() : std::chrono::milliseconds(0);
}

// Each process sends its bytes to every other process, and receives one message from each.
std::vector<std::string> World::all_gather(const std::string& mine, const char* what) const {
  if (size() == 1) return {mine};
  const std::scoped_lock lock(transport_->exchange);
  const int here = rank().value();
  Sending sending(mine, what);
  for (int p = 1; p < size(); ++p) sending.to(*transport_, (here + p) % size());
  std::vector<std::string> parts(std::size_t(size()), mine);
  for (int p = 0; p < size(); ++p)
    if (p != here) parts[std::size_t(p)] = receive(*transport_, p, what);
  sending.wait();
  return parts;
}

std::vector<std::int64_t> World::all_gather(std::int64_t mine, const char* what) const {
  std::vector<std::int64_t> numbers;
  for (const std::string& part : all_gather(std::string(reinterpret_cast<const char*>(&mine), sizeof mine), what)) {
    std::int64_t number = 0;
    std::memcpy(&number, part.data(), std::min(part.size(), sizeof number));
    numbers.push_back(number);
  }
  return numbers;
}

std::string World::broadcast(const std::string& mine, const char* what) const {
  if (size() == 1) return mine;
  const std::scoped_lock lock(transport_->exchange);
  if (!is_first()) return receive(*transport_, 0, what);
  Sending sending(mine, what);
  for (int p = 1; p < size(); ++p) sending.to(*transport_, p);
  sending.wait();
  return mine;
}

void World::barrier(const char* what) const { all_gather(std::string(), what); }

std::vector<std::string> World::agree(const std::string& mine, const char* what, const Check& check) const {
  std::vector<std::string> of_each = all_gather(mine, what);
  try {
    check(of_each);
  } catch (...) {
    throw_on_all(std::current_exception());
  }
  return of_each;
}

// A process that gets here has all the data that `check` reads. So it throws the error of `check` itself, even if the
// transport fails meanwhile because another process has already ended with this error.
void World::throw_on_all(const std::exception_ptr& error) const {
  if (size() > 1) {
    try {
      barrier(kErrorOfAll);
    } catch (const std::exception&) {
    }
    transport_->set_agreed_error(error);
  }
  std::rethrow_exception(error);
}

bool World::was_thrown_on_all(const std::exception_ptr& error) const noexcept {
  return error && transport_ && transport_->agreed_error() == error;
}

}  // namespace lockstep
