#include "io/header_checksum.h"

#include <charconv>
#include <cstdint>
#include <utility>

#include "core/text.h"
#include "io/checksum.h"

namespace lockstep::safetensors {
namespace {

constexpr std::string_view kNames = "lockstep.checksum.";
constexpr std::string_view kTensors = "lockstep.checksum.tensors";
// A header with checksums begins with this text; the digits of the header's own checksum follow.
constexpr std::string_view kOpening = R"({"__metadata__":{"lockstep.checksum.header":"xxh3:)";
constexpr std::size_t kEnd = kOpening.size() + kChecksumDigits;

constexpr std::string_view kWhy =
    ": the file is damaged, or another program has changed it and kept its checksums (ReadOptions have .verify = "
    "false)";

std::string zeros() { return std::string(kChecksumDigits, '0'); }

std::string checksum_of(std::string_view json) {
  const std::uint64_t length = json.size();
  Checksum checksum;
  checksum.add(&length, sizeof length);
  checksum.add(json.data(), kOpening.size());
  checksum.add(zeros().data(), kChecksumDigits);
  checksum.add(json.data() + kEnd, json.size() - kEnd);
  return checksum_digits(checksum.value());
}

bool is_sealed(std::string_view json) { return json.starts_with(kOpening) && json.size() >= kEnd; }

}  // namespace

std::string checksums_json(const Header& header) {
  std::string json = text(kOpening.substr(kOpening.find(R"("lockstep)")), zeros(), R"(",")", kTensors, R"(":")");
  for (const Entry& entry : header.entries) {
    if (&entry != &header.entries.front()) json += ' ';
    json += checksum_digits(entry.checksum.value_or(0));
  }
  return json + '"';
}

void seal_header(std::string& json) { json.replace(kOpening.size(), kChecksumDigits, checksum_of(json)); }

void verify_header(const std::string& file, std::string_view json) {
  if (!is_sealed(json)) return;
  const std::string_view expected = json.substr(kOpening.size(), kChecksumDigits);
  if (const std::string got = checksum_of(json); got != expected)
    throw FormatError(file, kLengthBytes,
                      text("expected a header with checksum ", shown(expected), ", got ", got, kWhy));
}

void take_checksums(const std::string& file, std::string_view json, Header& header, bool verify) {
  std::size_t count = 0;
  std::string digits;
  std::erase_if(header.metadata, [&](auto& text) {
    if (!names_checksum(text.first)) return false;
    if (text.first == kTensors) digits = std::move(text.second);
    return ++count > 0;
  });
  if (!verify || count == 0) return;
  const std::size_t tensors = header.entries.size();
  const std::size_t expected = tensors == 0 ? 0 : tensors * (kChecksumDigits + 1) - 1;
  bool fits = is_sealed(json) && count == 2 && digits.size() == expected;
  for (std::size_t i = 0; fits && i < tensors; ++i) {
    const char* const from = digits.data() + i * (kChecksumDigits + 1);
    std::uint64_t value = 0;
    fits = std::from_chars(from, from + kChecksumDigits, value, 16).ptr == from + kChecksumDigits;
    header.entries[i].checksum = value;
  }
  if (!fits)
    throw FormatError(file, kLengthBytes,
                      text("expected checksums of the header and of ", tensors, " tensors, got others", kWhy));
}

bool names_checksum(std::string_view name) { return name.starts_with(kNames); }

}  // namespace lockstep::safetensors
