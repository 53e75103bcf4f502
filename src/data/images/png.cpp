// libpng reports errors by longjmp: between setjmp and the end of a function that calls it, no object may have a
// destructor.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>

#include <lockstep/core/error.h>

#include "data/images/decode.h"

namespace lockstep::data {
namespace {

// Chunks that do not affect the pixels: texts, colour profiles, times. They may be large when decompressed.
constexpr png_byte kIgnored[] =
    "bKGD\0cHRM\0eXIf\0gAMA\0hIST\0iCCP\0iTXt\0oFFs\0pCAL\0pHYs\0sBIT\0sCAL\0sPLT\0sRGB\0tEXt\0tIME\0zTXt";
constexpr double kMaxInflation = 1032;  // pixel bytes per byte of deflate data: 2 bits can stand for a run of 258 bytes

struct PngReader {
  Blocks blocks;
  std::size_t at = 0;  // position in the block
  char message[120] = "";
  png_structp png = nullptr;
  png_infop info = nullptr;

  explicit PngReader(ByteSource& source) : blocks(source) {}
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
};

void on_error(png_structp png, png_const_charp message) {
  auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
  std::strncpy(reader->message, message, sizeof reader->message - 1);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void give_bytes(png_structp png, png_bytep to, std::size_t bytes) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  while (bytes > 0) {
    if (reader->at == reader->blocks.size()) {
      reader->at = 0;
      if (!reader->blocks.next()) png_error(png, "the file is cut off");
    }
    const std::size_t some = std::min(bytes, reader->blocks.size() - reader->at);
    std::memcpy(to, reader->blocks.data() + reader->at, some);
    reader->at += some;
    to += some;
    bytes -= some;
  }
}

// Returns true on success, as read_rows() does.
bool read_header(PngReader& reader, std::size_t& row_bytes) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_set_read_fn(reader.png, &reader, give_bytes);
  // A wrong CRC is an error in ancillary chunks too: tRNS has the transparent colours.
  png_set_crc_action(reader.png, PNG_CRC_DEFAULT, PNG_CRC_ERROR_QUIT);
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_NEVER, kIgnored, int(sizeof kIgnored / 5));
  png_read_info(reader.png, reader.info);
  row_bytes = png_get_rowbytes(reader.png, reader.info);
  png_set_expand(reader.png);  // converts palettes to RGB, fewer than 8 bits to 8, a transparent colour to alpha
  png_set_strip_16(reader.png);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  return true;
}

bool read_rows(PngReader& reader, unsigned char* to, std::size_t height, std::size_t row_bytes, int passes) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  for (int pass = 0; pass < passes; ++pass)
    for (std::size_t y = 0; y < height; ++y) png_read_row(reader.png, to + y * row_bytes, nullptr);
  png_read_end(reader.png, nullptr);
  return true;
}

}  // namespace

Tensor decode_png(const EncodedImage& image) {
  PngReader reader(image.source);
  const auto fail = [&] {
    reader.blocks.rethrow();
    image.source.fail(reader.blocks.end() - reader.blocks.size() + reader.at,
                      "expected a PNG, got an error: ", reader.message);
  };
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_error, on_warning);
  if (reader.png) reader.info = png_create_info_struct(reader.png);
  if (!reader.info) throw Error("[read_image] expected memory for a PNG reader, got none");
  std::size_t row_bytes = 0;  // size of a row in the file
  if (!read_header(reader, row_bytes)) fail();
  const auto height = std::size_t(png_get_image_height(reader.png, reader.info));
  const auto width = std::size_t(png_get_image_width(reader.png, reader.info));
  const auto channels = std::size_t(png_get_channels(reader.png, reader.info));
  const int passes = png_get_interlace_type(reader.png, reader.info) == PNG_INTERLACE_NONE ? 1 : 7;
  const Tensor pixels = pixels_of(image, std::int64_t(height), std::int64_t(width), std::int64_t(channels),
                                  double(row_bytes) * double(height) / kMaxInflation);
  if (!read_rows(reader, pixels.data<std::uint8_t>(), height, width * channels, passes)) fail();
  return pixels;
}

bool reads_png() noexcept { return true; }

}  // namespace lockstep::data
