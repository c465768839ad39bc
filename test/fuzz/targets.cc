#include "fuzz/targets.h"

namespace dtrain::fuzz {

const std::vector<Target>& targets() {
  // An array in sparse form and a JPEG with 190 scans are refused.
  static const std::vector<Target> all = {
      {"symbol", read_symbol_bytes, symbol_seeds},    {"params", read_params_bytes, params_seeds, 1},
      {"records", read_records_bytes, records_seeds}, {"index", read_index_bytes, index_seeds},
      {"list", read_list_bytes, list_seeds},          {"pickle", read_pickle_bytes, pickle_seeds},
      {"image", read_image_bytes, image_seeds, 1},    {"sharding", read_sharding_bytes, sharding_seeds},
      {"hosts", read_hosts_bytes, hosts_seeds},       {"groups", read_groups_bytes, groups_seeds},
      {"request", read_request_bytes, request_seeds}};
  return all;
}

}  // namespace dtrain::fuzz
