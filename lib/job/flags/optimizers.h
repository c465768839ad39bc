// The optimizers that --optimizer knows, and the parameters that each takes in parentheses: rmsprop(centered=1). What
// they compute is in docs/arithmetic.md, "Optimizers".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::job {

struct OptimizerParameter {
  std::string name;
  double min, max;
};
struct OptimizerKind {
  std::string name;
  bool takes_momentum = false;
  std::optional<double> learning_rate = {};  // the default of --lr; nullopt: the one in the network's script
  std::vector<OptimizerParameter> parameters = {};
  bool uses_norms = false;  // whether the optimizer needs the norms of whole arrays, regardless of other flags
};
const std::vector<OptimizerKind>& optimizer_kinds();
std::vector<std::string> optimizer_kind_names();

// The text before the parentheses.
std::string_view optimizer_name(std::string_view text);
// The optimizer that `text` names. `text` must be valid for check_optimizer_text.
const OptimizerKind& optimizer_kind(std::string_view text);
// Code::kUsage for an unknown name or parameter, and for a value that is no number or out of range.
Result<> check_optimizer_text(std::string_view text);

}  // namespace dtrain::job
