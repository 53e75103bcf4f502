#include "train/processes.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include <lockstep/core/error.h>
#include <lockstep/tensor/random.h>

#include "core/text.h"
#include "distributed/same_lines.h"

namespace lockstep::train::detail {
namespace {

// Serializes numbers and texts, which are read back in the same order.
class Packed {
 public:
  Packed() = default;
  explicit Packed(std::string bytes) : bytes_(std::move(bytes)) {}

  template <class T>
  Packed& put(const T& number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof number);
    return *this;
  }
  Packed& put(const std::string& value) {
    put(value.size());
    bytes_ += value;
    return *this;
  }
  template <class T>
  T get() {
    T number{};
    std::memcpy(&number, bytes_.data() + at_, sizeof number);
    at_ += sizeof number;
    return number;
  }
  std::string get_text() {
    const auto size = get<std::size_t>();
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

enum class Outcome : char { done, io_error, format_error, invalid_argument, other_error };

// The context that add_context() added, without its leading blank and outer parentheses.
std::string context_of(const IoError& error) {
  const std::string all = error.what(), plain = IoError(error.operation, error.file, error.code).what();
  return all.size() > plain.size() + 3 ? all.substr(plain.size() + 2, all.size() - plain.size() - 3) : std::string();
}

// The error's reason, with the context that add_context() added.
std::string reason_of(const FormatError& error) {
  return std::string(error.what()).substr(std::string(FormatError(error.file, error.offset, "").what()).size());
}

// Serializes the exception that is being handled.
std::string described() {
  try {
    throw;
  } catch (const IoError& error) {
    return Packed()
        .put(Outcome::io_error)
        .put(error.operation)
        .put(error.file)
        .put(error.code)
        .put(context_of(error))
        .bytes();
  } catch (const FormatError& error) {
    return Packed().put(Outcome::format_error).put(error.file).put(error.offset).put(reason_of(error)).bytes();
  } catch (const InvalidArgument& error) {
    return Packed().put(Outcome::invalid_argument).put(std::string(error.what())).bytes();
  } catch (const std::exception& error) {
    return Packed().put(Outcome::other_error).put(std::string(error.what())).bytes();
  } catch (...) {
    return Packed().put(Outcome::other_error).put(std::string("an exception of another type")).bytes();
  }
}

template <class E>
[[noreturn]] void throw_with_place(E error, const World& world, int process) {
  error.add_context(text("in process ", process, " on ", world.host(ProcessRank(process))));
  throw error;
}

[[noreturn]] void throw_again(Outcome outcome, Packed& description, const World& world, int process, const char* what) {
  if (outcome == Outcome::io_error) {
    const std::string operation = description.get_text(), file = description.get_text();
    IoError error(operation, file, description.get<int>());
    if (const std::string context = description.get_text(); !context.empty()) error.add_context(context);
    throw_with_place(error, world, process);
  }
  if (outcome == Outcome::format_error) {
    const std::string file = description.get_text();
    const auto offset = description.get<std::uint64_t>();
    throw_with_place(FormatError(file, offset, description.get_text()), world, process);
  }
  const std::string message = description.get_text();
  if (outcome == Outcome::invalid_argument) throw_with_place(InvalidArgument(message), world, process);
  throw_with_place(CollectiveError(process, what, 0, message), world, process);
}

// Returns f's results from all processes. If f or `check` throws in one process, this throws in every process.
std::vector<std::string> exchanged(const World& world, const char* what, const std::function<std::string()>& f,
                                   const World::Check& check) {
  if (world.size() == 1) return {f()};
  std::string mine;
  std::exception_ptr failure;
  try {
    mine = Packed().put(Outcome::done).put(f()).bytes();
  } catch (...) {
    failure = std::current_exception();
    mine = described();
  }
  std::vector<std::string> results;
  world.agree(mine, what, [&](const std::vector<std::string>& of_each) {
    if (failure) std::rethrow_exception(failure);
    for (std::size_t p = 0; p < of_each.size(); ++p) {
      Packed packed(of_each[p]);
      const auto outcome = packed.get<Outcome>();
      if (outcome != Outcome::done) throw_again(outcome, packed, world, int(p), what);
      results.push_back(packed.get_text());
    }
    check(results);
  });
  return results;
}

void put_sums(Packed& packed, const std::vector<MeanSum>& sums) {
  packed.put(sums.size());
  for (const MeanSum& sum : sums) packed.put(sum.name).put(sum.total).put(sum.weight);
}

std::vector<MeanSum> get_sums(Packed& packed) {
  std::vector<MeanSum> sums;
  for (auto left = packed.get<std::size_t>(); left > 0; --left) {
    const std::string name = packed.get_text();
    const auto total = packed.get<double>(), weight = packed.get<double>();
    sums.push_back({.name = name, .total = total, .weight = weight});
  }
  return sums;
}

}  // namespace

std::vector<std::string> all_or_throw(const World& world, const char* what, const std::function<std::string()>& f) {
  return exchanged(world, what, f, [](const std::vector<std::string>&) {});
}

std::vector<std::string> require_equal_in_all(const World& world, const char* what,
                                              const std::function<std::string()>& f) {
  return exchanged(world, what, f, [&](const std::vector<std::string>& results) {
    expect_same_lines("[trainer] expected the same in all processes", world, results);
  });
}

void broadcast_generator(const World& world) {
  if (world.size() == 1) return;
  const std::string first = world.broadcast(Packed().put(current_generator()).bytes(), "random numbers");
  set_generator(Packed(first).get<GeneratorState>());
}

void add_sums(std::vector<MeanSum>& all, const std::vector<MeanSum>& more) {
  for (const MeanSum& sum : more) {
    const auto found = std::ranges::find(all, sum.name, &MeanSum::name);
    if (found == all.end()) {
      all.push_back(sum);
    } else {
      found->total += sum.total;
      found->weight += sum.weight;
    }
  }
}

Report over_all_rows(const World& world, Report mine) {
  if (world.size() == 1) return mine;
  Packed packed;
  packed.put(mine.seconds).put(mine.asks_to_stop);
  put_sums(packed, mine.training);
  put_sums(packed, mine.validation);
  Report all;
  const std::vector<std::string> parts = world.all_gather(packed.bytes(), "report of training");
  for (std::size_t p = 0; p < parts.size(); ++p) {
    Packed part(parts[p]);
    const auto seconds = part.get<double>();
    if (p == 0) all.seconds = seconds;
    all.asks_to_stop = part.get<bool>() || all.asks_to_stop;
    add_sums(all.training, get_sums(part));
    add_sums(all.validation, get_sums(part));
  }
  return all;
}

}  // namespace lockstep::train::detail
