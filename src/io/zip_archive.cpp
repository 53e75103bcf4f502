#include "io/zip_archive.h"

#include <algorithm>
#include <cstring>

#include "io/crc32.h"
#include "io/safetensors_header.h"

namespace lockstep {
namespace {

constexpr std::uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr std::uint64_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr std::uint64_t kMaxComment = 0xffff, kBlock = 256 << 10;
constexpr std::uint16_t kInExtra16 = 0xffff, kZip64Extra = 1;
constexpr std::uint32_t kInExtra32 = 0xffffffff;

template <class T>
T number(std::string_view bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string method_name(std::uint16_t method) {
  switch (method) {
    case 0: return "no compression";
    case 8: return "deflate";
    case 9: return "deflate64";
    case 12: return "bzip2";
    case 14: return "LZMA";
    case 93: return "zstd";
    default: return "method " + std::to_string(method);
  }
}

using safetensors::shown;

}  // namespace

bool is_zip(ByteSource& source) {
  if (source.size() < 9) return false;
  const std::string begin = source.bytes_at(0, 9);
  return (number<std::uint32_t>(begin, 0) == kLocal || number<std::uint32_t>(begin, 0) == kEnd) &&
         std::string_view("{ \t\r\n").find(begin[8]) == std::string_view::npos;
}

ZipArchive::ZipArchive(ByteSource& source) : source_(source) {
  const Directory directory = find_directory();
  read_directory(directory);
  locate(directory);
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (!positions_.emplace(entries_[i].name, i).second)
      source_.fail(entries_[i].header, "expected each entry once, got ", shown(entries_[i].name), " again");
}

const ZipArchive::Entry* ZipArchive::find(std::string_view name) const {
  const auto found = positions_.find(name);
  return found == positions_.end() ? nullptr : &entries_[found->second];
}

// Reads the end-of-directory record, which gives the directory's position; a comment may follow the record.
ZipArchive::Directory ZipArchive::find_directory() {
  const std::uint64_t size = source_.size();
  if (size < kEndBytes) source_.fail(0, "expected a zip file, got ", size, " bytes");
  const std::uint64_t tail_begin = size - std::min(size, kEndBytes + kMaxComment);
  const std::string tail = source_.bytes_at(tail_begin, size - tail_begin);
  std::size_t at = tail.size() - kEndBytes + 1;
  do {
    if (at-- == 0) source_.fail(size, "expected a zip file with a directory at its end, got none: the file is cut off");
  } while (number<std::uint32_t>(tail, at) != kEnd ||
           at + kEndBytes + number<std::uint16_t>(tail, at + 20) != tail.size());

  const std::uint64_t end = tail_begin + at;
  const auto entries = number<std::uint16_t>(tail, at + 10);
  const auto check_count = [&](std::uint64_t here, std::uint64_t all) {
    if (here != all)
      source_.fail(end, "expected an archive in one file, with ", all, " entries, got ", here, " of them");
  };
  check_count(number<std::uint16_t>(tail, at + 8), entries);
  Directory directory = {number<std::uint32_t>(tail, at + 16), number<std::uint32_t>(tail, at + 12), entries};
  std::uint64_t limit = end;
  if (entries == kInExtra16 || directory.begin == kInExtra32 || directory.bytes == kInExtra32) {
    if (end < kLocator64Bytes) source_.fail(end, "expected a zip64 locator before the end, got none");
    const std::string locator = source_.bytes_at(end - kLocator64Bytes, kLocator64Bytes);
    if (number<std::uint32_t>(locator, 0) == kLocator64) {
      limit = number<std::uint64_t>(locator, 8);
      if (limit > end - kLocator64Bytes || end - kLocator64Bytes - limit < kEnd64Bytes)
        source_.fail(end - kLocator64Bytes, "expected a zip64 end within the file, got byte ", limit);
      const std::string end64 = source_.bytes_at(limit, kEnd64Bytes);
      if (number<std::uint32_t>(end64, 0) != kEnd64) source_.fail(limit, "expected a zip64 end, got something else");
      directory = {number<std::uint64_t>(end64, 48), number<std::uint64_t>(end64, 40),
                   number<std::uint64_t>(end64, 32)};
      check_count(number<std::uint64_t>(end64, 24), directory.entries);
    }
  }
  if (directory.begin > limit || directory.bytes > limit - directory.begin)
    source_.fail(end, "expected a directory before byte ", limit, ", got ", directory.bytes, " bytes at ",
                 directory.begin);
  if (directory.bytes > kMaxDirectoryBytes || directory.entries > kMaxEntries)
    source_.fail(end, "expected a directory of at most ", kMaxDirectoryBytes, " bytes and ", kMaxEntries,
                 " entries, got ", directory.bytes, " and ", directory.entries);
  if (directory.entries > directory.bytes / kCentralBytes)
    source_.fail(end, "expected as many entries as fit ", directory.bytes, " bytes, got ", directory.entries);
  return directory;
}

void ZipArchive::read_directory(const Directory& directory) {
  const std::string bytes = source_.bytes_at(directory.begin, directory.bytes);
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    const std::uint64_t here = directory.begin + at;
    if (bytes.size() - at < kCentralBytes || number<std::uint32_t>(bytes, at) != kCentral)
      source_.fail(here, "expected entry ", i, " of the directory, got something else");
    const auto flags = number<std::uint16_t>(bytes, at + 8), method = number<std::uint16_t>(bytes, at + 10);
    const std::size_t name_bytes = number<std::uint16_t>(bytes, at + 28);
    const std::size_t extra_bytes = number<std::uint16_t>(bytes, at + 30);
    const std::size_t length = kCentralBytes + name_bytes + extra_bytes + number<std::uint16_t>(bytes, at + 32);
    if (bytes.size() - at < length) source_.fail(here, "expected an entry within the directory, got a longer one");
    Entry entry = {.name = bytes.substr(at + kCentralBytes, name_bytes),
                   .header = number<std::uint32_t>(bytes, at + 42),
                   .bytes = number<std::uint32_t>(bytes, at + 24),
                   .packed = number<std::uint32_t>(bytes, at + 20),
                   .crc = number<std::uint32_t>(bytes, at + 16),
                   .method = method};

    std::string_view extra = std::string_view(bytes).substr(at + kCentralBytes + name_bytes, extra_bytes);
    while (extra.size() >= 4) {
      const std::size_t field_bytes = number<std::uint16_t>(extra, 2);
      if (field_bytes > extra.size() - 4) break;
      if (number<std::uint16_t>(extra, 0) == kZip64Extra) {
        std::string_view field = extra.substr(4, field_bytes);
        for (std::uint64_t* value : {&entry.bytes, &entry.packed, &entry.header}) {
          if (*value != kInExtra32 || field.size() < 8) continue;
          *value = number<std::uint64_t>(field, 0);
          field.remove_prefix(8);
        }
      }
      extra.remove_prefix(4 + field_bytes);
    }
    if (flags & 1) source_.fail(here, "expected entries that are not encrypted, got ", shown(entry.name));
    if (method == 0 && entry.packed != entry.bytes)
      source_.fail(here, "expected one size of ", shown(entry.name), ", got ", entry.bytes, " and ", entry.packed);
    if (entry.header > directory.begin || directory.begin - entry.header < kLocalBytes)
      source_.fail(here, "expected ", shown(entry.name), " before the directory, got byte ", entry.header);
    entries_.push_back(std::move(entry));
    at += length;
  }
  if (at != bytes.size())
    source_.fail(directory.begin + at, "expected a directory of ", directory.entries, " entries, got ",
                 bytes.size() - at, " bytes behind them");
}

// Finds the data of each entry, which follow a local header with its own lengths and a copy of the name.
void ZipArchive::locate(const Directory& directory) {
  for (Entry& entry : entries_) {
    const std::string local = source_.bytes_at(entry.header, kLocalBytes);
    if (number<std::uint32_t>(local, 0) != kLocal)
      source_.fail(entry.header, "expected the beginning of ", shown(entry.name), ", got something else");
    const auto name_bytes = number<std::uint16_t>(local, 26);
    entry.begin = entry.header + kLocalBytes + name_bytes + number<std::uint16_t>(local, 28);
    if (entry.begin > directory.begin || entry.packed > directory.begin - entry.begin)
      source_.fail(entry.header, "expected ", shown(entry.name), " before the directory, got ", entry.packed,
                   " bytes at ", entry.begin);
    // Reads no more than the length of the directory's name, so that the directory bounds the bytes read in total.
    const std::string name =
        source_.bytes_at(entry.header + kLocalBytes, std::min<std::uint64_t>(name_bytes, entry.name.size() + 1));
    if (name != entry.name || number<std::uint16_t>(local, 8) != entry.method)
      source_.fail(entry.header, "expected ", shown(entry.name), " with ", method_name(entry.method),
                   ", as the directory says, got ", shown(name), " with ", method_name(number<std::uint16_t>(local, 8)),
                   ": the file is damaged");
  }
  std::vector<const Entry*> order;
  for (const Entry& entry : entries_) order.push_back(&entry);
  std::ranges::sort(order, {}, &Entry::header);
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i]->header < order[i - 1]->begin + order[i - 1]->packed)
      source_.fail(order[i]->header, "expected entries without overlap, got ", shown(order[i]->name), " in ",
                   shown(order[i - 1]->name));
}

void ZipArchive::check_stored(const Entry& entry) const {
  if (entry.method != 0)
    source_.fail(entry.header, "expected entries that are stored uncompressed, got ", shown(entry.name), " with ",
                 method_name(entry.method));
}

void ZipArchive::check_crc(const Entry& entry, std::uint32_t crc) const {
  if (crc != entry.crc)
    source_.fail(entry.begin, "expected data with CRC ", entry.crc, " of ", shown(entry.name), ", got ", crc,
                 ": the file is damaged");
}

void ZipArchive::read(const Entry& entry, void* to, bool verify) {
  check_stored(entry);
  std::uint32_t crc = 0;
  auto* at = static_cast<std::byte*>(to);
  for (std::uint64_t done = 0; done < entry.bytes; done += kBlock) {
    const auto block = std::size_t(std::min(kBlock, entry.bytes - done));
    source_.read(entry.begin + done, at + done, block);
    if (verify) crc = crc32_of(at + done, block, crc);
  }
  if (verify) check_crc(entry, crc);
}

void ZipArchive::verify(const Entry& entry) {
  check_stored(entry);
  std::uint32_t crc = 0;
  for (std::uint64_t done = 0; done < entry.bytes; done += kBlock) {
    const std::string block = source_.bytes_at(entry.begin + done, std::min(kBlock, entry.bytes - done));
    crc = crc32_of(block.data(), block.size(), crc);
  }
  check_crc(entry, crc);
}

std::string ZipArchive::read_text(const Entry& entry, std::uint64_t most, bool verify) {
  if (entry.bytes > most)
    source_.fail(entry.header, "expected at most ", most, " bytes of ", shown(entry.name), ", got ", entry.bytes);
  check_stored(entry);
  std::string bytes(std::size_t(entry.bytes), '\0');
  read(entry, bytes.data(), verify);
  return bytes;
}

}  // namespace lockstep
