// The instruction set of the processor, as oneDNN detects it.
#pragma once

#include <string>

namespace dtrain::exec::cpu {

// The widest instruction set that oneDNN generates code for on this processor: "avx512_core_bf16", "avx2".
std::string isa_name();

}  // namespace dtrain::exec::cpu
