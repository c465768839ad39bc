#include "stages.h"

namespace dtrain::gpu {

std::vector<Part> copies_parts(Machine& machine) {
  return {{"copies", [&machine]() -> Result<Outcome> {
             machine.use();
             DT_TRY(const CopyRates rates, machine.copy_rates());
             return passed(
                 fmt::format("device {:.0f} GB/s (read and written), to it {:.1f}, from it {:.1f}", rates.device,
                             rates.to_device, rates.to_host),
                 {{"device_gb_s", rates.device}, {"to_device_gb_s", rates.to_device}, {"to_host_gb_s", rates.to_host}});
           }}};
}

}  // namespace dtrain::gpu
