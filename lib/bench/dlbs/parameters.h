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

// A value for a parameter that replaces the file's.
struct DlbsSetting {
  std::string name;
  nlohmann::ordered_json value;
};
// Reads "NAME=JSON" of -P. A value that is a plain word, such as resnet50, counts as a text.
Result<DlbsSetting> parse_dlbs_setting(std::string_view text);

class DlbsParameters {
 public:
  using Json = nlohmann::ordered_json;
  enum class Type { kText, kInteger, kNumber, kBoolean, kAny };
  struct Parameter {
    std::string name;
    Json value;
    Type type = Type::kAny;
    bool given = false;  // by the file or the command line
  };

  // `config`: the text of a configuration file, {"parameters": {...}}; empty: none. Of `settings` the last one of a
  // name counts. Parameters that nobody gave have DLBS's defaults, and parameters that DLBS does not know are kept.
  // Then each text is expanded: ${name} is another parameter's value, or else that of an environment variable, and
  // $(...)$ is the value of an expression (expression.h). Names may be made of others, as in
  // ${${exp.framework}.data_dir}.
  //
  // Code::kUsage: no such JSON; a value of the wrong type; an undefined name, or names that need each other, which the
  // message lists.
  static Result<DlbsParameters> make(const std::string& config, const std::vector<DlbsSetting>& settings,
                                     const job::Environment& environment);

  [[nodiscard]] const std::vector<Parameter>& all() const { return all_; }  // DLBS's own first
  [[nodiscard]] const Parameter* find(std::string_view name) const;         // null: there is none
  [[nodiscard]] bool is_given(std::string_view name) const;
  // The value of a parameter that DLBS knows, which has the right type.
  [[nodiscard]] std::string text(std::string_view name) const;
  [[nodiscard]] int64_t integer(std::string_view name) const;
  [[nodiscard]] bool boolean(std::string_view name) const;
  // Names that look like mistyped names of DLBS: "exp.replica_bacth: DLBS has exp.replica_batch; ...".
  [[nodiscard]] std::vector<std::string> notes() const;

  void set(std::string_view name, Json value);  // adds the parameter if there is none

 private:
  std::vector<Parameter> all_;
};

// A value as Python's str() writes it: texts as they are, True, False, 2.0.
std::string dlbs_text(const nlohmann::ordered_json& value);

}  // namespace dtrain::bench
