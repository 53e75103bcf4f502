// libjpeg leaves an error by a function that must not return: by longjmp, so between setjmp and the end of a function
// that calls it nothing has a destructor.
#include <cstdio>  // which jpeglib.h needs, and does not include

#include <jpeglib.h>

#include <jerror.h>

#include <csetjmp>
#include <string>

#include <lockstep/core/error.h>

#include "data/images/decode.h"

namespace lockstep::data {
namespace {

struct JpegReader {
  jpeg_decompress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  std::jmp_buf failed = {};
  char message[JMSG_LENGTH_MAX] = "";
  std::size_t size;
  bool is_made = false;

  explicit JpegReader(std::size_t bytes) : size(bytes) {}
  ~JpegReader() {
    if (is_made) jpeg_destroy_decompress(&jpeg);
  }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  std::size_t at() const { return jpeg.src ? size - jpeg.src->bytes_in_buffer : 0; }
};

[[noreturn]] void on_error(j_common_ptr jpeg) {
  auto* reader = static_cast<JpegReader*>(jpeg->client_data);
  jpeg->err->format_message(jpeg, reader->message);
  std::longjmp(reader->failed, 1);
}

// A warning is data that cannot be right. Those that many cameras cause, such as stray bytes, are passed over.
void on_message(j_common_ptr jpeg, int level) {
  if (level < 0 && (jpeg->err->msg_code == JWRN_JPEG_EOF || jpeg->err->msg_code == JWRN_HIT_MARKER)) on_error(jpeg);
}

// Whether all went well, as in the next one.
bool read_header(JpegReader& reader, const unsigned char* bytes) {
  reader.jpeg.err = jpeg_std_error(&reader.errors);
  reader.errors.error_exit = [](j_common_ptr jpeg) { on_error(jpeg); };
  reader.errors.emit_message = on_message;
  reader.jpeg.client_data = &reader;
  if (setjmp(reader.failed)) return false;
  jpeg_create_decompress(&reader.jpeg);
  reader.is_made = true;
  jpeg_mem_src(&reader.jpeg, bytes, static_cast<unsigned long>(reader.size));
  jpeg_read_header(&reader.jpeg, TRUE);
  return true;
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
  JpegReader reader(image.bytes.size());
  const auto fail = [&](const std::string& got) {
    throw FormatError(image.path, reader.at(), "expected a JPEG, got " + got);
  };
  if (!read_header(reader, image.bytes.data())) fail(std::string("an error: ") + reader.message);
  const bool is_grey = reader.jpeg.jpeg_color_space == JCS_GRAYSCALE;
  if (reader.jpeg.jpeg_color_space == JCS_CMYK || reader.jpeg.jpeg_color_space == JCS_YCCK) fail("one in CMYK");
  reader.jpeg.out_color_space = is_grey ? JCS_GRAYSCALE : JCS_RGB;
  const Tensor pixels =
      pixels_of(image, std::int64_t(reader.jpeg.image_height), std::int64_t(reader.jpeg.image_width), is_grey ? 1 : 3);
  if (!read_rows(reader, pixels.data<std::uint8_t>())) fail(std::string("an error: ") + reader.message);
  return pixels;
}

bool reads_jpeg() noexcept { return true; }

}  // namespace lockstep::data
