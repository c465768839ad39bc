// The initial values of whole networks. A run with the same seed begins with the same bits in every version of dtrain.
#include <span>

#include "base/crc32c.h"
#include "exec/contract.h"
#include "job/flags/flags.h"
#include "role/setup/network.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::role;

namespace {

// The CRC-32C of all weights and statistics of a network, in order, drawn with seed 7.
uint32_t crc_of_initial_values(const std::string& name, const Shape& image) {
  job::JobFlags flags;
  flags.network.network = name;
  flags.network.num_classes = 10;
  flags.network.image_shape = image;
  flags.seed = 7;
  const Network network = build_network(flags).value();
  const ParameterMemory memory = exec::parameter_memory(network.shapes, exec::Options::Purpose::kInference);
  REQUIRE(initialize(flags, memory.view()));
  uint32_t crc = 0;
  for (const auto* spans : {&memory.view().parameters, &memory.view().statistics}) {
    for (const ParameterSpan& span : *spans) crc = crc32c(std::as_bytes(span.weight), crc);
  }
  return crc;
}

}  // namespace

// resnet-zscore brings initial values of its own for weights and statistics.
TEST_CASE("the initial values of a network keep their bits", "[role]") {
  CHECK(crc_of_initial_values("lenet", {1, 28, 28}) == 0xadd0e8b7);
  CHECK(crc_of_initial_values("inception-bn-28-small", {3, 28, 28}) == 0x8c70f105);
  CHECK(crc_of_initial_values("resnet-zscore", {3, 32, 32}) == 0xf16c5bf2);
}
