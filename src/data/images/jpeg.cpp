// libjpeg reports errors through a function that must not return, so it calls longjmp. Between setjmp and the end of a
// function that calls it, no object may have a destructor.
#include <cstdio>  // jpeglib.h needs it and does not include it

#include <jpeglib.h>

#include <jerror.h>

#include <csetjmp>

#include "data/images/decode.h"

namespace lockstep::data {
namespace {

// Maximum number of scans of a progressive JPEG; encoders write about 10. Each scan costs the time of a whole image,
// even if it has few bytes.
constexpr int kMaxScans = 100;
constexpr double kMaxPixelsPerByte = 512;  // each block of 64 pixels takes at least a bit

struct JpegReader {
  Blocks blocks;
  jpeg_decompress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  std::jmp_buf failed = {};
  char message[JMSG_LENGTH_MAX] = "";
  jpeg_source_mgr source = {};
  jpeg_progress_mgr progress = {};
  bool is_made = false;

  explicit JpegReader(ByteSource& bytes) : blocks(bytes) {}
  ~JpegReader() {
    if (is_made) jpeg_destroy_decompress(&jpeg);
  }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  std::uint64_t at() const { return blocks.end() - source.bytes_in_buffer; }
};

[[noreturn]] void on_error(j_common_ptr jpeg) {
  auto* reader = static_cast<JpegReader*>(jpeg->client_data);
  jpeg->err->format_message(jpeg, reader->message);
  std::longjmp(reader->failed, 1);
}

// Warnings mean invalid data. Only those for truncated data are errors; other warnings are common, for example because
// cameras write stray bytes.
void on_message(j_common_ptr jpeg, int level) {
  if (level < 0 && (jpeg->err->msg_code == JWRN_JPEG_EOF || jpeg->err->msg_code == JWRN_HIT_MARKER)) on_error(jpeg);
}

void on_progress(j_common_ptr jpeg) {
  auto* reader = static_cast<JpegReader*>(jpeg->client_data);
  if (reader->jpeg.input_scan_number <= kMaxScans) return;
  std::snprintf(reader->message, sizeof reader->message, "more than %d scans", kMaxScans);
  std::longjmp(reader->failed, 1);
}

boolean give_block(j_decompress_ptr jpeg) {
  auto* reader = static_cast<JpegReader*>(jpeg->client_data);
  if (!reader->blocks.next()) ERREXIT(jpeg, JERR_INPUT_EOF);
  jpeg->src->next_input_byte = reader->blocks.data();
  jpeg->src->bytes_in_buffer = reader->blocks.size();
  return TRUE;
}

void skip_bytes(j_decompress_ptr jpeg, long bytes) {
  while (bytes > long(jpeg->src->bytes_in_buffer)) {
    bytes -= long(jpeg->src->bytes_in_buffer);
    give_block(jpeg);
  }
  if (bytes <= 0) return;
  jpeg->src->next_input_byte += bytes;
  jpeg->src->bytes_in_buffer -= std::size_t(bytes);
}

// Returns true on success, as read_rows() does.
bool read_header(JpegReader& reader) {
  reader.jpeg.err = jpeg_std_error(&reader.errors);
  reader.errors.error_exit = [](j_common_ptr jpeg) { on_error(jpeg); };
  reader.errors.emit_message = on_message;
  reader.jpeg.client_data = &reader;
  if (setjmp(reader.failed)) return false;
  jpeg_create_decompress(&reader.jpeg);
  reader.is_made = true;
  reader.source.init_source = [](j_decompress_ptr) {};
  reader.source.fill_input_buffer = give_block;
  reader.source.skip_input_data = skip_bytes;
  reader.source.resync_to_restart = jpeg_resync_to_restart;
  reader.source.term_source = [](j_decompress_ptr) {};
  reader.jpeg.src = &reader.source;
  reader.progress.progress_monitor = on_progress;
  reader.jpeg.progress = &reader.progress;
  jpeg_read_header(&reader.jpeg, TRUE);
  return true;
}

// Returns a lower bound of the size of the image's data, in bytes. It is 0 for arithmetic coding, which can use less
// than a bit for a block, and if no component has full resolution, so that there are fewer blocks.
double least_bytes(const jpeg_decompress_struct& jpeg) {
  bool has_all = false;
  for (int i = 0; i < jpeg.num_components; ++i)
    has_all = has_all || (jpeg.comp_info[i].h_samp_factor == jpeg.max_h_samp_factor &&
                          jpeg.comp_info[i].v_samp_factor == jpeg.max_v_samp_factor);
  if (jpeg.arith_code || !has_all) return 0;
  return double(jpeg.image_height) * double(jpeg.image_width) / kMaxPixelsPerByte;
}

bool read_rows(JpegReader& reader, unsigned char* to) {
  if (setjmp(reader.failed)) return false;
  jpeg_decompress_struct& jpeg = reader.jpeg;
  jpeg_start_decompress(&jpeg);
  const std::size_t row_bytes = std::size_t(jpeg.output_width) * std::size_t(jpeg.output_components);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = to + jpeg.output_scanline * row_bytes;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

}  // namespace

Tensor decode_jpeg(const EncodedImage& image) {
  JpegReader reader(image.source);
  const auto fail = [&](const auto&... got) {
    reader.blocks.rethrow();
    image.source.fail(reader.at(), "expected a JPEG, got ", got...);
  };
  if (!read_header(reader)) fail("an error: ", reader.message);
  const bool is_grey = reader.jpeg.jpeg_color_space == JCS_GRAYSCALE;
  if (reader.jpeg.jpeg_color_space == JCS_CMYK || reader.jpeg.jpeg_color_space == JCS_YCCK) fail("a JPEG in CMYK");
  reader.jpeg.out_color_space = is_grey ? JCS_GRAYSCALE : JCS_RGB;
  const Tensor pixels = pixels_of(image, std::int64_t(reader.jpeg.image_height), std::int64_t(reader.jpeg.image_width),
                                  is_grey ? 1 : 3, least_bytes(reader.jpeg));
  if (!read_rows(reader, pixels.data<std::uint8_t>())) fail("an error: ", reader.message);
  return pixels;
}

bool reads_jpeg() noexcept { return true; }

}  // namespace lockstep::data
