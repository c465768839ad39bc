#include "data/jpeg.h"

#include <csetjmp>
#include <cstdio>
// jpeglib.h needs stdio.h before it, and jerror.h needs the configuration from jpeglib.h.
#include <jpeglib.h>

#include <jerror.h>

#include "data/picture_header.h"

namespace dtrain::data {

// The library reports an error by calling a function that must not return; longjmp leaves it. No object with a
// destructor may live between setjmp and the library's calls.
struct JpegDecoder::State {
  jpeg_decompress_struct decompress{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  jmp_buf escape{};
  char message[JMSG_LENGTH_MAX] = {};
  std::vector<uint8_t> cmyk;  // one row

  static State& of(j_common_ptr info) { return *static_cast<State*>(info->client_data); }
  [[noreturn]] static void give_up(j_common_ptr info) {
    State& state = of(info);
    (*info->err->format_message)(info, state.message);
    std::longjmp(state.escape, 1);
  }
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
  state.errors.error_exit = [](j_common_ptr info) { State::give_up(info); };
  state.errors.emit_message = [](j_common_ptr info, int level) {
    if (level < 0 && means_damage(info->err->msg_code)) State::give_up(info);
  };
  state.progress.progress_monitor = [](j_common_ptr info) {
    if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kScansMax) return;
    State& state = State::of(info);
    std::snprintf(state.message, sizeof state.message, "the image has more than %d scans", kScansMax);
    std::longjmp(state.escape, 1);
  };
  jpeg_create_decompress(&state.decompress);
  state.decompress.client_data = &state;
  state.decompress.progress = &state.progress;
}

JpegDecoder::~JpegDecoder() {
  jpeg_destroy_decompress(&state_->decompress);
}

namespace {

// Converts a CMYK pixel to blue, green, red. The inks are stored inverted, as Adobe does. Same as OpenCV's
// icvCvt_CMYK2BGR_8u_C4C3R.
struct Bgr {
  int blue, green, red;
};
Bgr bgr_of(const uint8_t* cmyk) {
  const int k = cmyk[3];
  const auto with_black = [k](int ink) { return k - ((255 - ink) * k >> 8); };
  return {with_black(cmyk[2]), with_black(cmyk[1]), with_black(cmyk[0])};
}

// Same as OpenCV's icvCvt_CMYK2Gray_8u_C4C1R: weights of 14 bits.
uint8_t gray_of(const Bgr& pixel) {
  constexpr int kBits = 14, kRed = 4899, kGreen = 9617, kBlue = (1 << kBits) - kRed - kGreen;
  return static_cast<uint8_t>((pixel.blue * kBlue + pixel.green * kGreen + pixel.red * kRed + (1 << (kBits - 1))) >>
                              kBits);
}

void convert_cmyk(const std::vector<uint8_t>& cmyk, int channels, uint8_t* out) {
  for (size_t at = 0; at < cmyk.size(); at += 4, out += channels) {
    const Bgr pixel = bgr_of(cmyk.data() + at);
    if (channels == 1) {
      *out = gray_of(pixel);
    } else {
      out[0] = static_cast<uint8_t>(pixel.blue);
      out[1] = static_cast<uint8_t>(pixel.green);
      out[2] = static_cast<uint8_t>(pixel.red);
    }
  }
}

}  // namespace

Result<> JpegDecoder::decode(Bytes file, int channels, Image& out) {
  State& state = *state_;
  jpeg_decompress_struct* info = &state.decompress;
  if (setjmp(state.escape) != 0) {
    jpeg_abort_decompress(info);
    return fail(Code::kData, "JPEG: {}", state.message);
  }
  jpeg_mem_src(info, file.data(), file.size());
  jpeg_read_header(info, TRUE);
  const bool is_cmyk = info->num_components == 4;
  const int stored_channels = info->num_components == 1 ? 1 : 3;
  const int out_channels = channels == 0 ? stored_channels : channels;
  if (auto fits = check_picture_size("JPEG", info->image_height, info->image_width); !fits) {
    jpeg_abort_decompress(info);
    return fits;
  }
  info->out_color_space = is_cmyk ? JCS_CMYK : out_channels == 1 ? JCS_GRAYSCALE : JCS_EXT_BGR;
  jpeg_start_decompress(info);
  out.resize(static_cast<int>(info->output_height), static_cast<int>(info->output_width), out_channels);
  if (is_cmyk) state.cmyk.resize(size_t{4} * info->output_width);
  while (info->output_scanline < info->output_height) {
    uint8_t* const pixels = out.at(static_cast<int>(info->output_scanline), 0);
    JSAMPROW row = is_cmyk ? state.cmyk.data() : pixels;
    jpeg_read_scanlines(info, &row, 1);
    if (is_cmyk) convert_cmyk(state.cmyk, out_channels, pixels);
  }
  jpeg_finish_decompress(info);
  return {};
}

}  // namespace dtrain::data
