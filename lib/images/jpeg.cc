#include "images/jpeg.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <iterator>
#include <string_view>
// jpeglib.h requires that stdio.h is included before it, and jerror.h needs the configuration from jpeglib.h.
#include <jpeglib.h>

#include <jerror.h>

#include "images/baseline_jpeg.h"
#include "images/image_header.h"

namespace dtrain::images {

// The library reports an error by calling a function that must not return; here the function leaves by longjmp. So no
// object with a destructor may live between setjmp and the library's calls.
struct JpegDecoder::State {
  jpeg_decompress_struct decompress{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  jmp_buf escape{};
  char message[JMSG_LENGTH_MAX] = {};
  std::vector<uint8_t> row;  // one row, used if it is not written to the result directly
  int channels = 0;          // channels of the result; 0: as stored
  bool is_cmyk = false;
  Bytes file;
  BaselineJpeg baseline;

  void create() {
    decompress.client_data = this;  // safe, because this object stays at its address
    jpeg_create_decompress(&decompress);
    decompress.progress = &progress;
  }
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
  state.create();
}

JpegDecoder::~JpegDecoder() {
  jpeg_destroy_decompress(&state_->decompress);
}

namespace {

// Converts a CMYK pixel to blue, green, red. The inks are stored inverted, as Adobe stores them. Computes the same as
// OpenCV's icvCvt_CMYK2BGR_8u_C4C3R.
struct Bgr {
  int blue, green, red;
};
Bgr bgr_of(const uint8_t* cmyk) {
  const int k = cmyk[3];
  const auto with_black = [k](int ink) { return k - ((255 - ink) * k >> 8); };
  return {with_black(cmyk[2]), with_black(cmyk[1]), with_black(cmyk[0])};
}

// The gray value of a pixel. Computes the same as OpenCV's icvCvt_CMYK2Gray_8u_C4C1R, with weights of 14 bits.
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

Result<ImageSize> JpegDecoder::open(Bytes file, int channels) {
  State& state = *state_;
  jpeg_decompress_struct* info = &state.decompress;
  state.channels = channels;
  if (setjmp(state.escape) != 0) {
    jpeg_abort_decompress(info);
    return fail(Code::kData, "JPEG: {}", state.message);
  }
  // Creates a new decompressor for each image, because the library would keep the tables of the previous image and
  // decode a damaged file without tables with them.
  jpeg_destroy_decompress(info);
  state.create();
  state.file = file;
  jpeg_mem_src(info, file.data(), file.size());
  jpeg_read_header(info, TRUE);
  DT_TRY_VOID(check_image_size("JPEG", info->image_height, info->image_width));
  if (state.channels == 0) state.channels = info->num_components == 1 ? 1 : 3;
  return ImageSize{info->image_height, info->image_width};
}

namespace {

// The whole image as a window. Called after the decompression has started.
Window whole_of(jpeg_decompress_struct* info) {
  return {.height = static_cast<int>(info->output_height), .width = static_cast<int>(info->output_width)};
}

// True if a progressive file lacks scans, so that the library estimates coefficients from those of the neighboring
// blocks. At the border of a part, these estimates would differ from those for the whole image.
bool lacks_coefficients(jpeg_decompress_struct* info) {
  if (info->coef_bits == nullptr) return false;
  for (int component = 0; component < info->num_components; component++) {
    const auto& bits = info->coef_bits[component];
    if (std::any_of(std::begin(bits), std::end(bits), [](int missing) { return missing != 0; })) return true;
  }
  return false;
}

// The bytes for the part's pixels and, if the coefficients are spread over several scans, for the coefficients of the
// whole image.
int64_t decoding_bytes(jpeg_decompress_struct* info, const Window& wanted, int channels) {
  int64_t bytes = int64_t{wanted.height} * wanted.width * channels;
  if (jpeg_has_multiple_scans(info) == 0) return bytes;
  constexpr int64_t kBlockBytes = sizeof(JBLOCK);
  for (int i = 0; i < info->num_components; i++) {
    const jpeg_component_info& component = info->comp_info[i];
    bytes += kBlockBytes * component.width_in_blocks * component.height_in_blocks;
  }
  return bytes;
}

}  // namespace

// Chooses the rows and columns to decode, and prepares `out` for them.
Window JpegDecoder::start(Window wanted, Image& out) {
  State& state = *state_;
  jpeg_decompress_struct* info = &state.decompress;
  state.is_cmyk = info->num_components == 4;
  info->out_color_space = state.is_cmyk ? JCS_CMYK : state.channels == 1 ? JCS_GRAYSCALE : JCS_EXT_BGR;
  jpeg_start_decompress(info);
  if (lacks_coefficients(info)) {
    wanted = whole_of(info);
    if (decoding_bytes(info, wanted, state.channels) > kDecodingBytesMax) {
      std::snprintf(state.message, sizeof state.message,
                    "some scans are missing, and it is too large to be decoded without them");
      std::longjmp(state.escape, 1);
    }
  }
  // A pixel's color is interpolated from neighboring samples, which are up to this many pixels away. At the border of
  // the part they must be present.
  const JDIMENSION margin = info->max_h_samp_factor;
  const auto left = static_cast<JDIMENSION>(wanted.x), right = left + static_cast<JDIMENSION>(wanted.width);
  JDIMENSION first = left > margin ? left - margin : 0;
  JDIMENSION columns = std::min(right + margin, info->output_width) - first;
  // The library decodes whole blocks, so the part begins at a block's border.
  if (columns < info->output_width) jpeg_crop_scanline(info, &first, &columns);
  out.resize(wanted.height, static_cast<int>(info->output_width), state.channels);
  if (state.is_cmyk) state.row.resize(size_t{4} * info->output_width);
  return {.y = wanted.y, .x = static_cast<int>(first), .height = out.height, .width = out.width};
}

void JpegDecoder::read_rows(const Window& part, Image& out) {
  State& state = *state_;
  jpeg_decompress_struct* info = &state.decompress;
  if (part.y > 0) jpeg_skip_scanlines(info, static_cast<JDIMENSION>(part.y));
  for (int y = 0; y < part.height; y++) {
    uint8_t* const pixels = out.at(y, 0);
    JSAMPROW row = state.is_cmyk ? state.row.data() : pixels;
    jpeg_read_scanlines(info, &row, 1);
    if (state.is_cmyk) convert_cmyk(state.row, state.channels, pixels);
  }
}

// Ends the decoding after the rows that are needed. If the file was truncated in the rows after them, it has no end
// marker. Searching for the marker is faster than decoding these rows; if it is missing, they are decoded, to get the
// error with the cause.
void JpegDecoder::finish() {
  State& state = *state_;
  jpeg_decompress_struct* info = &state.decompress;
  if (info->output_scanline < info->output_height) {
    const std::string_view rest(reinterpret_cast<const char*>(info->src->next_input_byte), info->src->bytes_in_buffer);
    const bool complete = jpeg_has_multiple_scans(info) != 0 || rest.rfind("\xff\xd9") != std::string_view::npos;
    if (complete) return jpeg_abort_decompress(info);
    state.row.resize(size_t{4} * info->output_width);
    JSAMPROW row = state.row.data();
    while (info->output_scanline < info->output_height) jpeg_read_scanlines(info, &row, 1);
  }
  jpeg_finish_decompress(info);
}

Result<Window> JpegDecoder::read(const Window& wanted, Image& out) {
  State& state = *state_;
  DT_TRY_VOID(check_decoding_bytes("JPEG", decoding_bytes(&state.decompress, wanted, state.channels)));
  if (const auto header = baseline_header(state.decompress, state.file); header && BaselineJpeg::handles(*header)) {
    if (state.baseline.read(*header, wanted, state.channels, out)) return wanted;
  }
  if (setjmp(state.escape) != 0) {
    jpeg_abort_decompress(&state.decompress);
    return fail(Code::kData, "JPEG: {}", state.message);
  }
  const Window part = start(wanted, out);
  read_rows(part, out);
  finish();
  return part;
}

}  // namespace dtrain::images
