#include "images/baseline_header.h"

#include <algorithm>
#include <cstdio>
// jpeglib.h requires that stdio.h is included before it.
#include <jpeglib.h>

namespace dtrain::images {

std::optional<BaselineHeader> baseline_header(const jpeg_decompress_struct& info, Bytes file) {
  const bool is_baseline = info.progressive_mode == 0 && info.arith_code == 0 && info.data_precision == 8 &&
                           info.Ss == 0 && info.Se == DCTSIZE2 - 1 && info.Ah == 0 && info.Al == 0;
  const bool is_known = info.jpeg_color_space == (info.num_components == 1 ? JCS_GRAYSCALE : JCS_YCbCr);
  const bool is_whole = info.comps_in_scan == info.num_components;
  if (!is_baseline || !is_known || !is_whole) return std::nullopt;
  BaselineHeader header{.height = static_cast<int>(info.image_height),
                        .width = static_cast<int>(info.image_width),
                        .restart_interval = static_cast<int>(info.restart_interval)};
  for (int i = 0; i < info.num_components; i++) {
    const jpeg_component_info& component = info.comp_info[i];
    if (info.cur_comp_info[i] != &component) return std::nullopt;
    const auto dc = static_cast<size_t>(component.dc_tbl_no), ac = static_cast<size_t>(component.ac_tbl_no);
    const auto steps = static_cast<size_t>(component.quant_tbl_no);
    if (std::max({dc, ac, steps}) >= BaselineHeader::kTables) return std::nullopt;
    const JHUFF_TBL *const dc_table = info.dc_huff_tbl_ptrs[dc], *const ac_table = info.ac_huff_tbl_ptrs[ac];
    if (dc_table == nullptr || ac_table == nullptr || info.quant_tbl_ptrs[steps] == nullptr) return std::nullopt;
    header.dc[dc] = {.counts = dc_table->bits, .symbols = dc_table->huffval};
    header.ac[ac] = {.counts = ac_table->bits, .symbols = ac_table->huffval};
    header.components.push_back({.h = component.h_samp_factor,
                                 .v = component.v_samp_factor,
                                 .steps = info.quant_tbl_ptrs[steps]->quantval,
                                 .dc = dc,
                                 .ac = ac});
  }
  header.data = file.last(info.src->bytes_in_buffer);
  return header;
}

}  // namespace dtrain::images
