// The processor as oneDNN sees it.
#pragma once

#include <string>

namespace dtrain::exec::cpu {

// The widest instruction set that kernels are made for here: "avx512_core_bf16", "avx2".
std::string isa_name();

}  // namespace dtrain::exec::cpu
