// The parameters of a DLBS benchmark (Deep Learning Benchmarking Suite, HPE): "exp.model" and the like, from DLBS's
// defaults, a configuration file and the command line. See docs/dlbs.md.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "job/process/process_environment.h"

namespace dtrain::bench {

// A value that overrides the file's value of a parameter.
struct DlbsSetting {
  std::string name;
  nlohmann::ordered_json value;
};
// Parses "NAME=JSON" of -P. A plain word, such as resnet50, is also accepted as a text.
Result<DlbsSetting> parse_dlbs_setting(std::string_view text);

class DlbsParameters {
 public:
  using Json = nlohmann::ordered_json;
  enum class Type { kText, kInteger, kNumber, kBoolean, kAny };
  struct Parameter {
    std::string name;
    Json value;
    Type type = Type::kAny;
    bool given = false;  // set by the file or the command line
  };

  // `config`: the text of a configuration file, {"parameters": {...}}; empty: none. If several of `settings` have the
  // same name, the last one counts. Parameters that are not given have DLBS's defaults, and parameters that DLBS does
  // not know are kept. Then each text is expanded: ${name} is replaced by another parameter's value, or else by that of
  // an environment variable, and $(...)$ by the value of an expression (expression.h). Names may be composed of others,
  // as in ${${exp.framework}.data_dir}.
  //
  // Code::kUsage: the JSON is invalid; a value has the wrong type; a name is undefined, or names depend on each other,
  // which the message lists.
  static Result<DlbsParameters> make(const std::string& config, const std::vector<DlbsSetting>& settings,
                                     const job::Environment& environment);

  [[nodiscard]] const std::vector<Parameter>& all() const { return all_; }  // DLBS's own first
  [[nodiscard]] const Parameter* find(std::string_view name) const;         // null if there is none
  [[nodiscard]] bool is_given(std::string_view name) const;
  // The value of a parameter that DLBS knows. The type must be the parameter's.
  [[nodiscard]] std::string text(std::string_view name) const;
  [[nodiscard]] int64_t integer(std::string_view name) const;
  [[nodiscard]] bool boolean(std::string_view name) const;
  // Notes about names that look like mistyped names of DLBS: "exp.replica_bacth: DLBS has exp.replica_batch; ...".
  [[nodiscard]] std::vector<std::string> notes() const;

  void set(std::string_view name, Json value);  // adds the parameter if it does not exist

 private:
  std::vector<Parameter> all_;
};

// A value as Python's str() writes it: texts unchanged, True, False, 2.0.
std::string dlbs_text(const nlohmann::ordered_json& value);

}  // namespace dtrain::bench
