// The parameters of a DLBS benchmark (Deep Learning Benchmarking Suite, HPE), such as "exp.model". They come from
// DLBS's defaults, a configuration file and the command line. See docs/dlbs.md.
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

// The value of a parameter on the command line; it overrides the value in the file.
struct DlbsSetting {
  std::string name;
  nlohmann::ordered_json value;
};
// Parses the "NAME=JSON" of the flag -P. A plain word such as resnet50 is accepted as a text.
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

  // `config`: the text of a configuration file, {"parameters": {...}}; empty: there is none. If several of `settings`
  // have the same name, the last one counts. Parameters that are not given have DLBS's defaults; parameters that DLBS
  // does not know are kept. Then each value that is a text is expanded. ${name} is replaced by the value of the
  // parameter with this name; if there is none, by that of the environment variable. $(...)$ is replaced by the value
  // of the expression (expression.h). A name may itself contain names, as in ${${exp.framework}.data_dir}.
  //
  // Code::kUsage: the JSON is invalid; a value has the wrong type; a name is undefined; or parameters depend on each
  // other in a circle, which the message shows.
  static Result<DlbsParameters> make(const std::string& config, const std::vector<DlbsSetting>& settings,
                                     const job::Environment& environment);

  // All parameters; those that DLBS itself has come first.
  [[nodiscard]] const std::vector<Parameter>& all() const { return all_; }
  [[nodiscard]] const Parameter* find(std::string_view name) const;  // returns null if there is no such parameter
  [[nodiscard]] bool is_given(std::string_view name) const;
  // The value of a parameter that DLBS knows. The function must be the one for the type of the parameter.
  [[nodiscard]] std::string text(std::string_view name) const;
  [[nodiscard]] int64_t integer(std::string_view name) const;
  [[nodiscard]] bool boolean(std::string_view name) const;
  // Notes about names that look like misspelled names of DLBS: "exp.replica_bacth: DLBS has exp.replica_batch; ...".
  [[nodiscard]] std::vector<std::string> notes() const;

  void set(std::string_view name, Json value);  // adds the parameter if it does not exist

 private:
  std::vector<Parameter> all_;
};

// A value formatted like Python's str(): texts unchanged, True, False, 2.0.
std::string dlbs_text(const nlohmann::ordered_json& value);

}  // namespace dtrain::bench
