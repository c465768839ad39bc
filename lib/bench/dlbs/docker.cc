#include <filesystem>
#include <sstream>

#include "base/json.h"
#include "bench/dlbs/benchmark.h"

namespace dtrain::bench {
namespace {

std::string absolute(const std::string& path, const std::string& directory) {
  return (std::filesystem::path(directory) / path).lexically_normal().string();
}

void append_words(const std::string& text, std::vector<std::string>& words) {
  std::istringstream stream(text);
  for (std::string word; stream >> word;) words.push_back(word);
}

}  // namespace

Result<std::vector<std::string>> docker_command(const DlbsParameters& parameters, const std::string& directory) {
  const std::string image = parameters.text("exp.docker_image");
  if (image.empty()) {
    return fail(Code::kUsage,
                "exp.docker: the image is missing (exp.docker_image); scripts/Dockerfile builds an image");
  }
  std::vector<std::string> command;
  append_words(parameters.text("exp.docker_launcher"), command);
  if (command.empty()) return fail(Code::kUsage, "exp.docker_launcher is empty; give docker");
  command.emplace_back("run");
  // Gives the container all GPUs, because exp.gpus refers to their numbers. A launcher such as nvidia-docker does so
  // itself.
  const bool adds_gpus = parameters.text("exp.device_type") == "gpu" && !parameters.is_given("exp.docker_launcher");
  if (adds_gpus) command.emplace_back("--gpus=all");
  append_words(parameters.text("exp.docker_args"), command);
  const std::string log = absolute(parameters.text("exp.log_file"), directory);
  const std::string logs = std::filesystem::path(log).parent_path().string();
  // DTRAIN_TOKEN has no value here, so docker passes on the value from its own environment.
  command.insert(command.end(), {"--env=DTRAIN_TOKEN", "--volume=" + logs + ":" + logs, "--workdir=" + logs});
  const std::string data = parameters.text("exp.data_dir");
  const std::string data_here = data.empty() ? "" : absolute(data, directory);
  if (!data.empty()) command.push_back("--volume=" + data_here + ":" + data_here + ":ro");
  command.insert(command.end(), {"--entrypoint=dtrain", image, "bench", "dlbs"});
  for (const DlbsParameters::Parameter& parameter : parameters.all()) {
    if (!parameter.given || parameter.name.starts_with("exp.docker")) continue;
    DlbsParameters::Json value = parameter.value;
    if (parameter.name == "exp.log_file") value = log;
    if (parameter.name == "exp.data_dir" || parameter.name == "mxnet.data_dir") value = data_here;
    command.push_back("-P" + parameter.name + "=" + json_text(value));
  }
  if (!parameters.is_given("exp.log_file")) command.push_back("-Pexp.log_file=" + json_text(DlbsParameters::Json(log)));
  return command;
}

}  // namespace dtrain::bench
