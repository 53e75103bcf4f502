// The protocol buffers of TensorBoard's event files, written by hand. Pure functions.
// (TensorBoard's event.proto, summary.proto, histogram.proto and tensor.proto;
// https://protobuf.dev/programming-guides/encoding/)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::train {

/// A serialized message. Fields are appended in the order of the calls.
class Message {
 public:
  Message& number(int field, std::int64_t value);     ///< Any integer, bool or enum.
  Message& real(int field, double value);             ///< double
  Message& real32(int field, float value);            ///< float
  Message& bytes(int field, std::string_view value);  ///< string, bytes, or a message
  Message& bytes(int field, const Message& message) { return bytes(field, message.bytes_); }
  Message& reals(int field, std::span<const double> values);  ///< repeated double, packed

  const std::string& bytes() const noexcept { return bytes_; }

 private:
  void varint(std::uint64_t value);
  void key(int field, int wire_type) { varint(std::uint64_t(field) << 3 | std::uint64_t(wire_type)); }

  std::string bytes_;
};

/// The first record of each file.
Message version_event(double wall_time);
/// `value`: a serialized Summary.Value.
Message summary_event(double wall_time, std::int64_t step, const Message& value);

Message scalar_value(std::string_view tag, double value);
Message text_value(std::string_view tag, std::string_view markdown);
/// `png`: the bytes of a PNG file.
Message image_value(std::string_view tag, int height, int width, int channels, std::string_view png);
/// Counts finite values, at least one, in `bins` bins of equal width from the minimum to the maximum, as PyTorch's
/// SummaryWriter and NumPy do.
Message histogram_value(std::string_view tag, std::span<const double> values, int bins);

}  // namespace lockstep::train
