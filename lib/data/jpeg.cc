#include "data/jpeg.h"

#include <csetjmp>
#include <cstdio>
// jpeglib.h wants stdio.h before it, and jerror.h what jpeglib.h says is built in.
#include <jpeglib.h>

#include <jerror.h>

namespace dtrain::data {

// The library reports an error by a call that must not return: longjmp leaves it. What lies between setjmp and the
// library's calls holds no object with a destructor.
struct JpegDecoder::State {
  jpeg_decompress_struct decompress{};
  jpeg_error_mgr errors{};
  jmp_buf escape{};
  char message[JMSG_LENGTH_MAX] = {};
  bool damaged = false;  // a warning said that pixels are lost

  static State& of(j_common_ptr info) { return *static_cast<State*>(info->client_data); }
};

namespace {

bool means_damage(int code) {
  return code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_JPEG_EOF ||
         code == JWRN_ARITH_BAD_CODE || code == JWRN_MUST_RESYNC || code == JWRN_BOGUS_PROGRESSION;
}

}  // namespace

bool is_jpeg(Bytes file) {
  return file.size() >= 3 && file[0] == 0xff && file[1] == 0xd8 && file[2] == 0xff;
}

JpegDecoder::JpegDecoder() : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.decompress.err = jpeg_std_error(&state.errors);
  state.errors.error_exit = [](j_common_ptr info) {
    State& failed = State::of(info);
    (*info->err->format_message)(info, failed.message);
    std::longjmp(failed.escape, 1);
  };
  state.errors.emit_message = [](j_common_ptr info, int level) {
    if (level >= 0 || !means_damage(info->err->msg_code)) return;
    State& warned = State::of(info);
    if (!warned.damaged) (*info->err->format_message)(info, warned.message);
    warned.damaged = true;
  };
  jpeg_create_decompress(&state.decompress);
  state.decompress.client_data = &state;
}

JpegDecoder::~JpegDecoder() {
  jpeg_destroy_decompress(&state_->decompress);
}

Result<JpegDecoder::Outcome> JpegDecoder::decode(Bytes file, int channels, Image& out) {
  State& state = *state_;
  jpeg_decompress_struct* info = &state.decompress;
  state.damaged = false;
  if (setjmp(state.escape) != 0) {
    jpeg_abort_decompress(info);
    return fail(Code::kData, "JPEG: {}", state.message);
  }
  jpeg_mem_src(info, file.data(), file.size());
  jpeg_read_header(info, TRUE);
  if (info->num_components == 4) {
    jpeg_abort_decompress(info);
    return Outcome::kNotOurs;
  }
  if (int64_t{info->image_width} * info->image_height > ImageDecoder::kPixelsMax) {
    jpeg_abort_decompress(info);
    return fail(Code::kData, "JPEG: {} x {} pixels are too many", info->image_height, info->image_width);
  }
  info->out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_EXT_BGR;
  jpeg_start_decompress(info);
  out.resize(static_cast<int>(info->output_height), static_cast<int>(info->output_width), channels);
  while (info->output_scanline < info->output_height) {
    JSAMPROW row = out.at(static_cast<int>(info->output_scanline), 0);
    jpeg_read_scanlines(info, &row, 1);
  }
  jpeg_finish_decompress(info);
  if (state.damaged) return fail(Code::kData, "JPEG: {}", state.message);
  return Outcome::kDecoded;
}

}  // namespace dtrain::data
