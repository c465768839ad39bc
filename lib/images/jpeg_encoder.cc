#include "images/jpeg_encoder.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>
// jpeglib.h requires that stdio.h is included before it, and jerror.h needs the configuration from jpeglib.h.
#include <jpeglib.h>

#include <jerror.h>

#include "images/image_header.h"
#include "images/jpeg.h"

namespace dtrain::images {

// The library reports an error by calling a function that must not return; here the function leaves by longjmp. So no
// object with a destructor may live between setjmp and the library's calls.
struct JpegEncoder::State {
  jpeg_compress_struct compress{};
  jpeg_decompress_struct source{};  // the file that add_restarts() rewrites
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  jpeg_destination_mgr destination{};
  jmp_buf escape{};
  char message[JMSG_LENGTH_MAX] = {};
  std::vector<uint8_t>* out = nullptr;

  static State& of(j_common_ptr info) { return *static_cast<State*>(info->client_data); }
  static State& of(j_compress_ptr info) { return *static_cast<State*>(info->client_data); }
  [[noreturn]] static void give_up(j_common_ptr info) {
    State& state = of(info);
    (*info->err->format_message)(info, state.message);
    std::longjmp(state.escape, 1);
  }
  // Makes the output larger, and lets the library write after its first `used` bytes.
  void grow(size_t used) {
    try {
      out->resize(used + std::max(used, size_t{1} << 16));
    } catch (const std::bad_alloc&) {  // because an exception must not pass through the library
      std::snprintf(message, sizeof message, "not enough memory for the encoded image");
      std::longjmp(escape, 1);
    }
    destination.next_output_byte = out->data() + used;
    destination.free_in_buffer = out->size() - used;
  }
  void write_to(std::vector<uint8_t>& target) {
    out = &target;
    compress.dest = &destination;
  }
  Result<> failure(size_t size_before) {
    jpeg_abort_compress(&compress);
    jpeg_abort_decompress(&source);
    out->resize(size_before);
    return fail(Code::kData, "JPEG: {}", message);
  }
  void copy_segments();
};

namespace {

// Whether a warning of the library means that pixels are lost.
bool loses_pixels(int warning) {
  constexpr int kLosses[] = {JWRN_HIT_MARKER,     JWRN_HUFF_BAD_CODE, JWRN_JPEG_EOF,
                             JWRN_ARITH_BAD_CODE, JWRN_MUST_RESYNC,   JWRN_BOGUS_PROGRESSION};
  return std::ranges::find(kLosses, warning) != std::end(kLosses);
}

}  // namespace

JpegEncoder::JpegEncoder() : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.compress.err = state.source.err = jpeg_std_error(&state.errors);
  state.errors.error_exit = [](j_common_ptr info) { State::give_up(info); };
  state.errors.emit_message = [](j_common_ptr info, int level) {
    if (level < 0 && loses_pixels(info->err->msg_code)) State::give_up(info);
  };
  state.progress.progress_monitor = [](j_common_ptr info) {
    State& state = State::of(info);
    if (info != reinterpret_cast<j_common_ptr>(&state.source)) return;
    if (state.source.input_scan_number <= JpegDecoder::kScansMax) return;
    std::snprintf(state.message, sizeof state.message, "the image has more than %d scans", JpegDecoder::kScansMax);
    std::longjmp(state.escape, 1);
  };
  state.destination.init_destination = [](j_compress_ptr info) { State::of(info).grow(State::of(info).out->size()); };
  state.destination.empty_output_buffer = [](j_compress_ptr info) -> boolean {
    State::of(info).grow(State::of(info).out->size());
    return TRUE;
  };
  state.destination.term_destination = [](j_compress_ptr info) {
    State& state = State::of(info);
    state.out->resize(state.out->size() - state.destination.free_in_buffer);
  };
  jpeg_create_compress(&state.compress);
  jpeg_create_decompress(&state.source);
  state.compress.client_data = state.source.client_data = &state;
  state.source.progress = &state.progress;
}

JpegEncoder::~JpegEncoder() {
  jpeg_destroy_compress(&state_->compress);
  jpeg_destroy_decompress(&state_->source);
}

Result<> JpegEncoder::encode(const Image& image, const Options& options, std::vector<uint8_t>& out) {
  State& state = *state_;
  jpeg_compress_struct* info = &state.compress;
  const size_t size_before = out.size();
  state.write_to(out);
  if (setjmp(state.escape) != 0) return state.failure(size_before);
  info->image_height = static_cast<JDIMENSION>(image.height);
  info->image_width = static_cast<JDIMENSION>(image.width);
  info->input_components = image.channels;
  info->in_color_space = image.channels == 1 ? JCS_GRAYSCALE : image.channels == 3 ? JCS_EXT_BGR : JCS_EXT_BGRX;
  jpeg_set_defaults(info);
  jpeg_set_quality(info, options.quality, TRUE);
  info->restart_in_rows = options.restart_interval;
  jpeg_start_compress(info, TRUE);
  while (info->next_scanline < info->image_height) {
    JSAMPROW row = const_cast<uint8_t*>(image.at(static_cast<int>(info->next_scanline), 0));
    jpeg_write_scanlines(info, &row, 1);
  }
  jpeg_finish_compress(info);
  return {};
}

// Copies the segments that the library does not write itself.
void JpegEncoder::State::copy_segments() {
  for (jpeg_saved_marker_ptr segment = source.marker_list; segment != nullptr; segment = segment->next) {
    const auto begins_with = [&](const char* name, size_t bytes) {
      return segment->data_length >= bytes && std::memcmp(segment->data, name, bytes) == 0;
    };
    if (compress.write_JFIF_header != 0 && segment->marker == JPEG_APP0 && begins_with("JFIF", 5)) continue;
    if (compress.write_Adobe_marker != 0 && segment->marker == JPEG_APP0 + 14 && begins_with("Adobe", 5)) continue;
    jpeg_write_marker(&compress, segment->marker, segment->data, segment->data_length);
  }
}

Result<> JpegEncoder::add_restarts(Bytes file, int restart_interval, std::vector<uint8_t>& out) {
  State& state = *state_;
  const size_t size_before = out.size();
  state.write_to(out);
  if (setjmp(state.escape) != 0) return state.failure(size_before);
  jpeg_mem_src(&state.source, file.data(), file.size());
  constexpr unsigned kWholeSegment = 0xffff;
  jpeg_save_markers(&state.source, JPEG_COM, kWholeSegment);
  for (int number = 0; number < 16; number++) jpeg_save_markers(&state.source, JPEG_APP0 + number, kWholeSegment);
  jpeg_read_header(&state.source, TRUE);
  if (auto size = check_image_size("JPEG", state.source.image_height, state.source.image_width); !size) {
    jpeg_abort_decompress(&state.source);
    return size;
  }
  jvirt_barray_ptr* const coefficients = jpeg_read_coefficients(&state.source);
  jpeg_copy_critical_parameters(&state.source, &state.compress);
  state.compress.optimize_coding = TRUE;
  state.compress.restart_in_rows = restart_interval;
  jpeg_write_coefficients(&state.compress, coefficients);
  state.copy_segments();
  jpeg_finish_compress(&state.compress);
  jpeg_finish_decompress(&state.source);
  return {};
}

}  // namespace dtrain::images
