// libjpeg-turbo's own result for a JPEG, which BaselineJpeg is compared with.
#pragma once

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <iterator>
#include <optional>
#include <utility>
// jpeglib.h needs stdio.h before it, and jerror.h needs the configuration from jpeglib.h.
#include <jpeglib.h>

#include <jerror.h>

#include "images/baseline_jpeg.h"

namespace dtrain::test {

// What libjpeg-turbo alone makes of a JPEG. Borrows the bytes.
class LibjpegTurbo {
 public:
  explicit LibjpegTurbo(Bytes file) : file_(file) {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = [](j_common_ptr info) {
      std::longjmp(static_cast<LibjpegTurbo*>(info->client_data)->escape_, 1);
    };
    errors_.emit_message = [](j_common_ptr info, int level) {
      constexpr int kDamage[] = {JWRN_HIT_MARKER,     JWRN_HUFF_BAD_CODE, JWRN_JPEG_EOF,
                                 JWRN_ARITH_BAD_CODE, JWRN_MUST_RESYNC,   JWRN_BOGUS_PROGRESSION};
      const bool is_damage = std::ranges::find(kDamage, info->err->msg_code) != std::end(kDamage);
      if (level < 0 && is_damage) std::longjmp(static_cast<LibjpegTurbo*>(info->client_data)->escape_, 1);
    };
    info_.client_data = this;
    jpeg_create_decompress(&info_);
    if (setjmp(escape_) != 0) return;
    jpeg_mem_src(&info_, file.data(), file.size());
    jpeg_read_header(&info_, TRUE);
    has_header_ = true;
  }
  ~LibjpegTurbo() { jpeg_destroy_decompress(&info_); }
  LibjpegTurbo(const LibjpegTurbo&) = delete;
  LibjpegTurbo& operator=(const LibjpegTurbo&) = delete;

  // What BaselineJpeg needs to know. Null if it does not decode files of this kind.
  std::optional<images::BaselineHeader> header() {
    if (!has_header_) return std::nullopt;
    const auto header = images::baseline_header(info_, file_);
    return header && images::BaselineJpeg::handles(*header) ? header : std::nullopt;
  }

  // Null if the file is damaged. May be called once.
  std::optional<images::Image> pixels(int channels) {
    if (!has_header_) return std::nullopt;
    if (setjmp(escape_) != 0) return std::nullopt;
    info_.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_EXT_BGR;
    jpeg_start_decompress(&info_);
    image_.resize(static_cast<int>(info_.image_height), static_cast<int>(info_.image_width), channels);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW line = image_.at(static_cast<int>(info_.output_scanline), 0);
      jpeg_read_scanlines(&info_, &line, 1);
    }
    jpeg_finish_decompress(&info_);
    return std::move(image_);
  }

 private:
  Bytes file_;
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jmp_buf escape_{};
  bool has_header_ = false;
  images::Image image_;
};

}  // namespace dtrain::test
