#include "io/zip_writer.h"

#include <algorithm>
#include <cstring>

#include "io/crc32.h"

namespace lockstep {
namespace {

constexpr std::uint32_t kInExtra = 0xffffffff;
constexpr std::uint16_t kVersion = 45;    // the version that supports zip64
constexpr std::uint16_t kUtf8 = 1 << 11;  // names are UTF-8
constexpr std::uint16_t kDate =
    1 << 5 | 1;  // the earliest date that zip has: equal entries give equal files at any time

template <class T>
std::string raw_bytes(T number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

std::uint32_t or_in_extra(std::uint64_t number) { return std::uint32_t(std::min<std::uint64_t>(number, kInExtra)); }

// The zip64 extra field, for the numbers that do not fit 32 bits.
std::string extra_of(std::initializer_list<std::uint64_t> numbers) {
  std::string field;
  for (const std::uint64_t number : numbers)
    if (number >= kInExtra) field += raw_bytes(number);
  return field.empty() ? "" : raw_bytes(std::uint16_t(1)) + raw_bytes(std::uint16_t(field.size())) + field;
}

}  // namespace

void ZipWriter::write(std::string_view bytes) {
  file_.write(bytes.data(), bytes.size());
  size_ += bytes.size();
}

void ZipWriter::add(const std::string& name, std::string_view before, const void* data, std::size_t bytes) {
  const std::uint64_t size = before.size() + bytes, header = size_;
  const std::uint32_t crc = crc32_of(data, bytes, crc32_of(before.data(), before.size()));
  const std::string own = raw_bytes(kVersion) + raw_bytes(kUtf8) + raw_bytes(std::uint16_t(0)) +
                          raw_bytes(std::uint16_t(0)) + raw_bytes(kDate) + raw_bytes(crc) +
                          raw_bytes(or_in_extra(size)) + raw_bytes(or_in_extra(size)) +
                          raw_bytes(std::uint16_t(name.size()));
  const std::string local = extra_of({size, size}), central = extra_of({size, size, header});
  write("PK\3\4" + own + raw_bytes(std::uint16_t(local.size())) + name + local);
  write(before);
  if (bytes > 0) write({static_cast<const char*>(data), bytes});
  directory_ += "PK\1\2" + raw_bytes(kVersion) + own + raw_bytes(std::uint16_t(central.size())) +
                std::string(10, '\0') + raw_bytes(or_in_extra(header)) + name + central;
  ++entries_;
}

void ZipWriter::finish() {
  const std::uint64_t begin = size_;
  write(directory_);
  const std::uint64_t end = size_;
  const auto entries = std::uint16_t(std::min<std::uint64_t>(entries_, 0xffff));
  if (entries == 0xffff || begin >= kInExtra || end - begin >= kInExtra)
    write("PK\6\6" + raw_bytes(std::uint64_t(44)) + raw_bytes(kVersion) + raw_bytes(kVersion) + std::string(8, '\0') +
          raw_bytes(entries_) + raw_bytes(entries_) + raw_bytes(end - begin) + raw_bytes(begin) + "PK\6\7" +
          std::string(4, '\0') + raw_bytes(end) + raw_bytes(std::uint32_t(1)));
  write("PK\5\6" + std::string(4, '\0') + raw_bytes(entries) + raw_bytes(entries) +
        raw_bytes(or_in_extra(end - begin)) + raw_bytes(or_in_extra(begin)) + std::string(2, '\0'));
}

}  // namespace lockstep
