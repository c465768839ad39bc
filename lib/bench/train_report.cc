// BenchTrainResult::json() and text().
#include <algorithm>

#include "base/json.h"
#include "bench/train.h"

namespace dtrain::bench {
namespace {

constexpr double kGiga = 1e9;

double per_second(double amount, const Profile::Line& line) {
  return line.least_s > 0 ? amount / line.least_s / kGiga : 0;
}

nlohmann::ordered_json json_of(const Profile& profile) {
  nlohmann::ordered_json lines = nlohmann::ordered_json::array();
  for (const Profile::Line& line : profile.lines) {
    nlohmann::ordered_json one{{"node", line.node},
                               {"what", line.what},
                               {"implementation", line.implementation},
                               {"mean_ms", 1e3 * line.mean_s},
                               {"min_ms", 1e3 * line.least_s},
                               {"share", line.share},
                               {"gflops", per_second(line.flops, line)},
                               {"gbytes_per_s", per_second(line.bytes, line)},
                               {"bound_ms", 1e3 * line.bound_s},
                               {"bound_by", line.computes ? "compute" : "memory"},
                               {"share_of_bound", line.share_of_bound()}};
    if (line.primitive_s > 0) one["primitive_ms"] = 1e3 * line.primitive_s;
    lines.push_back(std::move(one));
  }
  return {{"peak_gflops", profile.peak_flops_per_s / kGiga},
          {"peak_gbytes_per_s", profile.peak_bytes_per_s / kGiga},
          {"steps", std::move(lines)}};
}

std::string text_of(const Profile& profile) {
  std::string text =
      fmt::format("measured peak: {:.0f} GFLOP/s (a large matrix product) and {:.1f} GB/s (a sum of large arrays)\n",
                  profile.peak_flops_per_s / kGiga, profile.peak_bytes_per_s / kGiga);
  const bool has_primitives =
      std::ranges::any_of(profile.lines, [](const Profile::Line& line) { return line.primitive_s > 0; });
  text +=
      fmt::format("{:>8} {:>8} {:>7} {:>8} {:>7} {:>8} {:>8}  {:32} {:28} {}\n", "mean ms", "least ms", "share",
                  "GFLOP/s", "GB/s", "of bound", has_primitives ? "alone ms" : "", "what", "node", "implementation");
  double mean = 0, least = 0, bound = 0;
  for (const Profile::Line& line : profile.lines) {
    const std::string alone = line.primitive_s > 0 ? fmt::format("{:.3f}", 1e3 * line.primitive_s) : "";
    text += fmt::format("{:8.3f} {:8.3f} {:5.1f} % {:8.1f} {:7.1f} {:4.0f} % {} {:>8}  {:32} {:28} {}\n",
                        1e3 * line.mean_s, 1e3 * line.least_s, 100 * line.share, per_second(line.flops, line),
                        per_second(line.bytes, line), 100 * line.share_of_bound(), line.computes ? "c" : "m", alone,
                        line.what, line.node, line.implementation);
    mean += line.mean_s, least += line.least_s, bound += line.bound_s;
  }
  return text +
         fmt::format(
             "{:8.3f} {:8.3f} in total; {:.3f} ms, {:.0f} %, if each step reached its bound (c: compute, m: memory)\n",
             1e3 * mean, 1e3 * least, 1e3 * bound, least > 0 ? 100 * bound / least : 0);
}

}  // namespace

std::string BenchTrainResult::json() const {
  nlohmann::ordered_json object{{"network", network}, {"batch_size", batch_size}, {"dtype", dtype}, {"device", device}};
  if (!isa.empty()) object.update({{"threads", threads}, {"isa", isa}});
  object["samples_per_s"] = {{"median", samples_per_s.median}, {"min", samples_per_s.min}, {"max", samples_per_s.max}};
  object["peak_rss_bytes"] = peak_rss_bytes;
  if (bound) object["bound"] = {{"direct", bound->direct}, {"best", bound->best}};
  if (profile) object["profile"] = json_of(*profile);
  return json_text(object);
}

std::string BenchTrainResult::text() const {
  std::string result = fmt::format(
      "{}, batch {}, {}, {}\n{:.1f} samples/s (median; {:.1f} to {:.1f}), peak memory {:.0f} MiB\n", network,
      batch_size, dtype, isa.empty() ? device : fmt::format("{} threads, {}", threads, isa), samples_per_s.median,
      samples_per_s.min, samples_per_s.max, static_cast<double>(peak_rss_bytes) / (1 << 20));
  if (bound) {
    result += fmt::format(
        "oneDNN's primitives alone: {:.1f} samples/s direct, {:.1f} best; the network reaches {:.2f} and {:.2f} of "
        "that\n",
        bound->direct, bound->best, samples_per_s.median / bound->direct, samples_per_s.median / bound->best);
  }
  return profile ? result + text_of(*profile) : result;
}

}  // namespace dtrain::bench
