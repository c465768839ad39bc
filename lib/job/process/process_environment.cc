#include "job/process/process_environment.h"

#include <algorithm>
#include <sstream>

#include "base/file.h"
#include "job/flags/flags.h"

namespace dtrain::job {
namespace {

Result<std::string> resolved(const Variable& variable, const Environment& environment) {
  const std::optional<std::string> value = variable.value ? variable.value : environment(variable.name);
  if (!value) {
    return fail(Code::kUsage,
                "{} is not set in the environment of the launcher: set it there, or give a value as {}=VALUE",
                variable.name, variable.name);
  }
  return variable.name + "=" + *value;
}

// A value ends at the end of its line, so it may contain blanks.
Result<> add_file(const std::string& name, const Environment& environment, std::vector<std::string>& all) {
  const Result<std::string> text = read_file(name);
  if (!text) return fail(Code::kUsage, "--env-file: {}", text.error().message);
  std::istringstream lines(*text);
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    number++;
    if (line.find_first_not_of(" \t\r") == std::string::npos || line.front() == '#') continue;
    const auto entry =
        parse_variable(line).and_then([&](const Variable& variable) { return resolved(variable, environment); });
    if (!entry) return fail(Code::kUsage, "{}:{}: {}", name, number, entry.error().message);
    all.push_back(*entry);
  }
  return {};
}

Result<> add(const char* flag, const std::vector<std::string>& words, const Environment& environment,
             std::vector<std::string>& all) {
  for (const std::string& word : words) {
    const auto entry =
        parse_variable(word).and_then([&](const Variable& variable) { return resolved(variable, environment); });
    if (!entry) return fail(Code::kUsage, "--{}: {}", flag, entry.error().message);
    all.push_back(*entry);
  }
  return {};
}

}  // namespace

Result<Variable> parse_variable(std::string_view text) {
  const size_t end = std::min(text.find_first_of("=:"), text.size());
  const std::string_view name = text.substr(0, end);
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  const bool is_name = !name.empty() && name.find_first_not_of(kPlain) == std::string_view::npos &&
                       (name.front() < '0' || name.front() > '9');
  if (!is_name) return fail(Code::kUsage, "'{}' is not a valid name for an environment variable", name);
  if (end == text.size()) return Variable{std::string(name), std::nullopt};
  return Variable{std::string(name), std::string(text.substr(end + 1))};
}

Result<std::vector<std::string>> process_environment(const LaunchFlags& flags, Role role,
                                                     const Environment& environment) {
  std::vector<std::string> all;
  if (!flags.env_file.empty()) DT_TRY_VOID(add_file(flags.env_file, environment, all));
  DT_TRY_VOID(add("env", flags.env, environment, all));
  if (role == Role::kServer) DT_TRY_VOID(add("env-server", flags.env_server, environment, all));
  if (role == Role::kWorker) DT_TRY_VOID(add("env-worker", flags.env_worker, environment, all));
  return all;
}

std::vector<std::string> forwarded_environment(const Environment& environment) {
  std::vector<std::string> all;
  for (const char* name : {"OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_AFFINITY", "LD_LIBRARY_PATH",
                           "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "DMLC_INTERFACE"}) {
    if (const std::optional<std::string> value = environment(name)) all.push_back(std::string(name) + "=" + *value);
  }
  return all;
}

}  // namespace dtrain::job
