#include "report/event_messages.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace lockstep::train {
namespace {

constexpr int kStringDType = 7;  // DT_STRING

template <class T>
void append_raw(std::string& to, T value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  to.append(raw, sizeof value);
}

}  // namespace

void Message::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += char(value | 0x80);
  bytes_ += char(value);
}

Message& Message::number(int field, std::int64_t value) {
  key(field, 0);
  varint(std::uint64_t(value));
  return *this;
}

Message& Message::real(int field, double value) {
  key(field, 1);
  append_raw(bytes_, value);
  return *this;
}

Message& Message::real32(int field, float value) {
  key(field, 5);
  append_raw(bytes_, value);
  return *this;
}

Message& Message::bytes(int field, std::string_view value) {
  key(field, 2);
  varint(value.size());
  bytes_ += value;
  return *this;
}

Message& Message::reals(int field, std::span<const double> values) {
  key(field, 2);
  varint(values.size_bytes());
  for (const double value : values) append_raw(bytes_, value);
  return *this;
}

Message version_event(double wall_time) { return Message().real(1, wall_time).bytes(3, "brain.Event:2"); }

Message summary_event(double wall_time, std::int64_t step, const Message& value) {
  return Message().real(1, wall_time).number(2, step).bytes(5, Message().bytes(1, value));
}

Message scalar_value(std::string_view tag, double value) { return Message().bytes(1, tag).real32(2, float(value)); }

// TensorBoard's text plugin finds the value by the name in its metadata. The value is a vector of one string.
Message text_value(std::string_view tag, std::string_view markdown) {
  const Message metadata = Message().bytes(1, Message().bytes(1, "text"));
  const Message shape = Message().bytes(2, Message().number(1, 1));
  const Message tensor = Message().number(1, kStringDType).bytes(2, shape).bytes(8, markdown);
  return Message().bytes(1, tag).bytes(9, metadata).bytes(8, tensor);
}

Message image_value(std::string_view tag, int height, int width, int channels, std::string_view png) {
  const Message image = Message().number(1, height).number(2, width).number(3, channels).bytes(4, png);
  return Message().bytes(1, tag).bytes(4, image);
}

// If all values are equal, they are in the middle of a range of width 1, as in numpy.histogram().
Message histogram_value(std::string_view tag, std::span<const double> values, int bins) {
  const auto [least, greatest] = std::ranges::minmax(values);
  double low = least, high = greatest;
  if (low == high) low -= 0.5, high += 0.5;
  std::vector<double> limits, counts(std::size_t(bins), 0.);
  for (int bin = 1; bin <= bins; ++bin) {
    const double part = double(bin) / bins;
    // not low + part * (high - low), where high - low may overflow
    limits.push_back(bin == bins ? high : low * (1 - part) + high * part);
  }
  double sum = 0, squares = 0;
  for (const double value : values) {
    const auto bin = std::ranges::upper_bound(limits, value) - limits.begin();
    ++counts[std::size_t(std::min<std::ptrdiff_t>(bin, bins - 1))];
    sum += value, squares += value * value;
  }
  // A bucket extends from the previous limit to its own; so an empty first bucket, which ends where the values begin,
  // comes first.
  limits.insert(limits.begin(), low);
  counts.insert(counts.begin(), 0);
  Message histogram;
  histogram.real(1, least).real(2, greatest).real(3, double(values.size())).real(4, sum).real(5, squares);
  histogram.reals(6, limits).reals(7, counts);
  return Message().bytes(1, tag).bytes(5, histogram);
}

}  // namespace lockstep::train
