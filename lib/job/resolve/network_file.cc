#include "job/resolve/network_file.h"

#include <filesystem>

#include "base/file.h"
#include "job/flags/flags.h"

namespace dtrain::job {

namespace {

constexpr std::string_view kEnding = ".json", kLongEnding = "-symbol.json";

Result<std::string> read(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return fail(Code::kUsage, "this is a directory; give the symbol file in it");
  }
  return read_file(path, kNetworkFileMax);
}

}  // namespace

bool is_network_file(std::string_view network) {
  return network.ends_with(kEnding) || network.find('/') != std::string_view::npos;
}

std::string network_of_file(std::string_view path, std::string_view content) {
  uint64_t hash = 0xcbf29ce484222325;  // start value of the hash FNV-1a with 64 bits
  for (const char c : content) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  std::string label = std::filesystem::path(path).filename().string();
  for (const std::string_view ending : {kLongEnding, kEnding}) {
    if (!label.ends_with(ending) || label.size() == ending.size()) continue;
    label.resize(label.size() - ending.size());
    break;
  }
  return fmt::format("{}:{:016x}", label, hash);
}

bool is_name_of_file(std::string_view network) {
  return network.find(':') != std::string_view::npos;
}

std::string network_label(std::string_view network) {
  return std::string(network.substr(0, network.rfind(':')));
}

Result<> resolve_network_file(Flags& flags) {
  NetworkFlags& network = flags.job.network;
  if (!is_network_file(network.network)) {
    // A run that is resumed has the network's name and the file's path; any other network has no file.
    if (!is_name_of_file(network.network)) network.file.clear();
    return {};
  }
  for (const char* flag :
       {"num-layers", "widen-factor", "num-group", "batch-norm", "add-stn", "smooth-alpha", "bn-mom"}) {
    if (flags.source(flag) != Source::kCommandLine) continue;
    return fail(Code::kUsage, "--{}: the symbol file of --network sets this value: leave the flag out", flag);
  }
  network.num_layers = 0;
  network.widen_factor = 1;
  network.num_group = NetworkFlags().num_group;
  network.batch_norm = network.add_stn = false;
  network.smooth_alpha = 0;
  network.file = network.network;
  DT_TRY(const std::string content, read(network.file), "--network {}", network.file);
  network.network = network_of_file(network.file, content);
  return {};
}

Result<std::string> read_network_file(const NetworkFlags& flags) {
  if (flags.file.empty()) {
    return fail(Code::kUsage, "the job's network is a symbol file ({}): also give this process --network FILE",
                flags.network);
  }
  DT_TRY(std::string content, read(flags.file),
         "reading the symbol file of the run's network, {} (if the file was moved, give --network FILE)", flags.file);
  const std::string seen = network_of_file(flags.file, content);
  const auto hash = [](const std::string& name) { return name.substr(name.rfind(':') + 1); };
  if (hash(seen) == hash(flags.network)) return content;
  return fail(
      Code::kUsage,
      "the network in {} is not the job's network (its hash is {} instead of {}): give all processes, and a resumed "
      "run, the same file with --network",
      flags.file, hash(seen), hash(flags.network));
}

}  // namespace dtrain::job
