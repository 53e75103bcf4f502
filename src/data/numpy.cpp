// The format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string>
#include <utility>

#include <lockstep/core/error.h>
#include <lockstep/data/arrays.h>
#include <lockstep/io/atomic_file.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"
#include "io/byte_source.h"
#include "io/safetensors_header.h"
#include "io/zip_archive.h"
#include "tensor/tensor_impl.h"

namespace lockstep::data {
namespace {

using safetensors::shown;

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint64_t kMaxNpyHeader = 1 << 16;

constexpr std::array<std::pair<std::string_view, DType>, 7> kDescriptions = {{{"|b1", kBool},
                                                                              {"|u1", kUInt8},
                                                                              {"<i4", kInt32},
                                                                              {"<i8", kInt64},
                                                                              {"<f2", kFloat16},
                                                                              {"<f4", kFloat32},
                                                                              {"<f8", kFloat64}}};

// An array in memory, which is part of a file.
class PartSource final : public ByteSource {
 public:
  PartSource(std::string name, std::string bytes) : name_(std::move(name)), bytes_(std::move(bytes)) {}
  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return bytes_.size(); }
  void read(std::uint64_t offset, void* to, std::size_t bytes) override {
    if (offset > bytes_.size() || bytes > bytes_.size() - offset)
      throw FormatError(name_, offset, text("expected ", bytes, " bytes more, got the end"));
    std::memcpy(to, bytes_.data() + offset, bytes);
  }

 private:
  std::string name_, bytes_;
};

// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class NpyHeader {
 public:
  std::string description;
  bool is_fortran = false;
  Shape sizes;

  NpyHeader(const std::string& file, std::string_view text, std::uint64_t begin)
      : file_(file), text_(text), begin_(begin) {
    expect('{');
    bool has_description = false, has_order = false, has_shape = false;
    while (!take('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr") {
        description = string();
        has_description = true;
      } else if (key == "fortran_order") {
        is_fortran = boolean();
        has_order = true;
      } else if (key == "shape") {
        shape();
        has_shape = true;
      } else {
        fail(text_of("descr, fortran_order and shape, got ", shown(key)));
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    if (!has_description || !has_order || !has_shape) fail("descr, fortran_order and shape, got fewer");
  }

 private:
  template <class... Parts>
  static std::string text_of(const Parts&... parts) {
    return lockstep::text(parts...);
  }
  [[noreturn]] void fail(const std::string& expected) const {
    throw FormatError(file_, begin_ + at_, "expected the header of an array with " + expected);
  }
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char token) {
    if (peek() != token || token == '\0') return false;
    ++at_;
    return true;
  }
  void expect(char token) {
    if (!take(token)) fail(text_of(token, ", got ", shown(text_.substr(at_, 20))));
  }
  std::string string() {
    const char quote = peek();
    const std::size_t end = quote == '\'' || quote == '"' ? text_.find(quote, at_ + 1) : text_.npos;
    if (end == text_.npos) fail(text_of("a text, got ", shown(text_.substr(at_, 20))));
    std::string found(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return found;
  }
  bool boolean() {
    peek();
    for (const auto& [word, value] : {std::pair("True", true), std::pair("False", false)})
      if (text_.substr(at_).starts_with(word)) {
        at_ += std::strlen(word);
        return value;
      }
    fail(text_of("True or False, got ", shown(text_.substr(at_, 20))));
  }
  void shape() {
    expect('(');
    while (!take(')')) {
      peek();
      std::int64_t size = 0;
      const char* first = text_.data() + at_;
      const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) fail(text_of("sizes, got ", shown(text_.substr(at_, 20))));
      if (sizes.rank() == Shape::kMaxRank) fail(text_of("at most ", Shape::kMaxRank, " dimensions, got more"));
      at_ += std::size_t(end - first);
      sizes.push_back(size);
      if (!take(',')) {
        expect(')');
        break;
      }
    }
  }

  const std::string& file_;
  std::string_view text_;
  std::uint64_t begin_;
  std::size_t at_ = 0;
};

Tensor read_array(ByteSource& source) {
  const auto fail = [&](std::uint64_t at, const auto&... reason) {
    throw FormatError(source.name(), at, text(reason...));
  };
  std::array<char, 12> begin = {};
  const std::uint64_t size = source.size();
  if (size < begin.size()) fail(0, "expected an array of NumPy, got ", size, " bytes");
  source.read(0, begin.data(), begin.size());
  if (std::string_view(begin.data(), kMagic.size()) != kMagic) fail(0, "expected an array of NumPy, got another file");
  const int version = begin[6];
  if (version < 1 || version > 3) fail(6, "expected version 1 to 3 of the format, got ", version);
  const std::uint64_t header_begin = version == 1 ? 10 : 12;
  std::uint32_t length = 0;
  std::memcpy(&length, begin.data() + 8, version == 1 ? 2 : 4);
  if (length > kMaxNpyHeader || length > size - header_begin)
    fail(8, "expected a header of at most ", std::min(kMaxNpyHeader, size - header_begin), " bytes, got ", length);
  std::string header_text(length, '\0');
  source.read(header_begin, header_text.data(), length);
  const NpyHeader header(source.name(), header_text, header_begin);
  std::string description = header.description;
  if (description == "<b1" || description == "<u1") description[0] = '|';
  const auto* known = std::ranges::find(kDescriptions, description, [](const auto& named) { return named.first; });
  if (known == kDescriptions.end())
    fail(header_begin, "expected one of |b1 |u1 <i4 <i8 <f2 <f4 <f8, got ", shown(header.description));

  const std::uint64_t data_begin = header_begin + length, available = size - data_begin;
  std::uint64_t bytes = size_of(known->second);
  for (const std::int64_t dim : header.sizes)
    if (__builtin_mul_overflow(bytes, std::uint64_t(dim), &bytes))
      fail(header_begin, "expected sizes that fit the ", available, " bytes of data, got ", header.sizes);
  if (bytes != available)
    fail(header_begin, "expected sizes that fit the ", available, " bytes of data, got ", header.sizes);
  Shape sizes = header.sizes, order;
  if (header.is_fortran) {
    sizes = Shape();
    for (int dim = header.sizes.rank(); dim-- > 0;) {
      sizes.push_back(header.sizes[dim]);
      order.push_back(dim);
    }
  }
  const Tensor array = empty(sizes, {.dtype = known->second});
  std::byte* const data = array.impl()->data();
  if (bytes > 0) source.read(data_begin, data, std::size_t(bytes));
  if (known->second == kBool) {
    const std::byte* bad = std::find_if(data, data + bytes, [](std::byte value) { return value > std::byte(1); });
    if (bad != data + bytes)
      fail(data_begin + std::uint64_t(bad - data), "expected 0 or 1 for a bool, got ", int(*bad));
  }
  return header.is_fortran ? array.permute(order) : array;
}

}  // namespace

Tensor read_npy(const std::filesystem::path& path) {
  FileSource source(path, Links::follow, "read_npy");
  return read_array(source);
}

void write_npy(const std::filesystem::path& path, const Tensor& tensor) {
  if (!tensor.defined()) throw InvalidArgument("[write_npy] expected a tensor, got an undefined one");
  const auto* known = std::ranges::find(kDescriptions, tensor.dtype(), [](const auto& named) { return named.second; });
  if (known == kDescriptions.end())
    throw DTypeError(text("[write_npy] expected a dtype that NumPy has, got ", tensor.dtype()));
  const Tensor host = tensor.detach().cpu().contiguous();
  std::string header = text("{'descr': '", known->first, "', 'fortran_order': False, 'shape': (");
  const Shape& sizes = host.sizes();
  for (int dim = 0; dim < sizes.rank(); ++dim) header += text(dim ? ", " : "", sizes[dim]);
  header += sizes.rank() == 1 ? ",), }" : "), }";
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  AtomicFile file(path);
  const auto length = std::uint16_t(header.size());
  file.write(kMagic.data(), kMagic.size());
  file.write("\1\0", 2);
  file.write(&length, sizeof length);
  file.write(header.data(), header.size());
  if (host.numel() > 0) file.write(host.impl()->data(), std::size_t(host.numel()) * size_of(host.dtype()));
  file.commit();
}

StateDict read_npz(const std::filesystem::path& path) {
  FileSource source(path, Links::follow, "read_npz");
  ZipArchive archive(source);
  StateDict arrays;
  for (const ZipArchive::Entry& entry : archive.entries()) {
    std::string name = entry.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    PartSource part(source.name() + ':' + entry.name, archive.read_text(entry, source.size(), true));
    arrays.add(std::move(name), read_array(part));
  }
  return arrays;
}

}  // namespace lockstep::data
