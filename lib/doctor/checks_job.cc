// Checks of what a job needs: GPUs, flags, data and memory. This file also defines check_all().
#include <fmt/ranges.h>
#include <algorithm>
#include <map>
#include <set>

#include "base/median.h"
#include "doctor/findings.h"
#include "job/process/exit_code.h"

namespace dtrain::doctor {
namespace {

constexpr const char* kNoJob = "skipped, because no job flags were given";
constexpr const char* kNoGpus = "skipped without --gpus";

bool asks_for_gpus(const HostReport& host) {
  return host.facts && host.facts->gpus.asked;
}

bool has_usable_gpus(const HostReport& host) {
  return asks_for_gpus(host) && host.facts->gpus.error.empty();
}

// How to check the version of a piece of GPU software, which should be the same on all hosts.
struct VersionCheck {
  std::string check;
  std::string Gpus::*version;
  bool (*takes_part)(const HostReport& host);
  Finding if_none;  // used if no host has reported the version
};

std::vector<Row> versions_row(const Examined& examined, const VersionCheck& check) {
  std::vector<std::string> all;
  for (const HostReport& host : examined.hosts) {
    if (!asks_for_gpus(host)) continue;
    const std::string& version = host.facts->gpus.*check.version;
    if (!version.empty()) all.push_back(version);
  }
  const std::string usual = all.empty() ? "" : most_frequent(all);
  const std::vector<Finding> findings =
      judge_hosts(examined, check.takes_part, [&](const HostReport&, const Facts& facts) -> Finding {
        const std::string& own = facts.gpus.*check.version;
        if (own.empty()) return check.if_none;
        if (own == usual) return {.found = own};
        return {.verdict = Verdict::kWarn,
                .found = fmt::format("{}, but most hosts have {}", own, usual),
                .remedy = "install the same version on all hosts"};
      });
  const bool any = std::any_of(examined.hosts.begin(), examined.hosts.end(), asks_for_gpus);
  return rows_of(check.check, findings, "", any ? "no GPU can be used" : kNoGpus);
}

Finding judge_gpus(const HostReport& /*host*/, const Facts& facts) {
  const Gpus& gpus = facts.gpus;
  if (!gpus.error.empty()) {
    return {.verdict = Verdict::kFail,
            .found = gpus.error,
            .remedy = "install the NVIDIA driver and dtrain's module for GPUs on this host, or train with --cpus N"};
  }
  return {.found = fmt::format("{}", fmt::join(gpus.found, "; "))};
}

std::string place_of(const DataFile& file) {
  return fmt::format("{} bytes, checksum {:08x}", file.bytes, file.checksum);
}

Finding judge_data(const Facts& facts) {
  if (!facts.data_error.empty()) {
    return {.verdict = Verdict::kFail,
            .found = facts.data_error,
            .remedy = "copy the data to this path on the host, or put it on a file system that all hosts share"};
  }
  double bytes = 0;
  for (const DataFile& file : facts.files) {
    if (!file.error.empty()) {
      return {.verdict = Verdict::kFail,
              .found = file.error,
              .remedy = "copy the file to the host, or allow this user to read it"};
    }
    bytes += static_cast<double>(file.bytes);
  }
  return {.found = fmt::format("{} files, {}", facts.files.size(), bytes_text(bytes))};
}

// For each file, the content that most hosts have.
std::map<std::string, std::string> usual_files(const Examined& examined) {
  std::map<std::string, std::vector<std::string>> by_path;
  for (const HostReport& host : examined.hosts) {
    if (!host.facts || !runs_workers(host)) continue;
    for (const DataFile& file : host.facts->files) {
      if (file.error.empty()) by_path[file.path].push_back(place_of(file));
    }
  }
  std::map<std::string, std::string> usual;
  for (const auto& [path, contents] : by_path) usual[path] = most_frequent(contents);
  return usual;
}

Finding judge_equality(const Facts& facts, const std::map<std::string, std::string>& usual) {
  for (const DataFile& file : facts.files) {
    if (!file.error.empty() || place_of(file) == usual.at(file.path)) continue;
    return {
        .verdict = Verdict::kFail,
        .found = fmt::format("{} has {}, but on most hosts it has {}", file.path, place_of(file), usual.at(file.path)),
        .remedy = "copy the same file to all hosts (rsync)"};
  }
  return {};
}

Finding judge_memory(const HostReport& host, const Facts& facts) {
  const double needed =
      static_cast<double>(host.workers) * facts.needs.worker + static_cast<double>(host.servers) * facts.needs.server;
  const std::string found = fmt::format("the processes on this host need at least {}", bytes_text(needed));
  if (needed > facts.memory_bytes) {
    return {.verdict = Verdict::kFail,
            .found = fmt::format("{}, but the host has {}", found, bytes_text(facts.memory_bytes)),
            .remedy = "make the batch smaller, or place fewer processes on this host (slots= in the host file)"};
  }
  if (needed > facts.memory_free_bytes) {
    return {.verdict = Verdict::kWarn,
            .found = fmt::format("{}, but only {} of {} are free at present", found,
                                 bytes_text(facts.memory_free_bytes), bytes_text(facts.memory_bytes)),
            .remedy = "end other programs on the host, or place fewer processes on it"};
  }
  return {.found = fmt::format("{}, and {} are free", found, bytes_text(facts.memory_free_bytes))};
}

// If there is no job: a row about the memory that the hosts have.
std::vector<Row> memory_row(const Examined& examined) {
  std::vector<double> free, all;
  const std::vector<Finding> findings =
      judge_hosts(examined, nullptr, [&](const HostReport&, const Facts& facts) -> Finding {
        free.push_back(facts.memory_free_bytes);
        all.push_back(facts.memory_bytes);
        return {};
      });
  if (findings.empty()) return rows_of("memory", findings);
  return rows_of("memory", findings,
                 fmt::format("{} free of {}", range_text(free, bytes_text), range_text(all, bytes_text)));
}

std::vector<Row> speed_row(const Examined& examined, const std::string& check, const std::vector<Finding>& slow,
                           const std::string& summary) {
  if (!examined.asked.perf) return single_row(check, Verdict::kSkip, "skipped without --perf");
  return rows_of(check, slow, summary, "nothing to measure");
}

}  // namespace

std::vector<Row> check_gpus(const Examined& examined) {
  const bool any = std::any_of(examined.hosts.begin(), examined.hosts.end(), asks_for_gpus);
  if (!any) return single_row("GPUs", Verdict::kSkip, kNoGpus);
  return rows_of("GPUs", judge_hosts(examined, asks_for_gpus, judge_gpus), "each worker's GPUs are usable");
}

std::vector<Row> check_driver(const Examined& examined) {
  return versions_row(examined, {.check = "driver",
                                 .version = &Gpus::driver,
                                 .takes_part = asks_for_gpus,
                                 .if_none = {.verdict = Verdict::kFail,
                                             .found = "no NVIDIA driver was found",
                                             .remedy = "install the NVIDIA driver (nvidia-smi shows it)"}});
}

std::vector<Row> check_cuda(const Examined& examined) {
  return versions_row(examined, {.check = "CUDA",
                                 .version = &Gpus::cuda,
                                 .takes_part = has_usable_gpus,
                                 .if_none = {.verdict = Verdict::kFail,
                                             .found = "the CUDA runtime does not report its version",
                                             .remedy = "install the CUDA runtime that this dtrain was built with"}});
}

std::vector<Row> check_nccl(const Examined& examined) {
  return versions_row(
      examined,
      {.check = "NCCL",
       .version = &Gpus::nccl,
       .takes_part = has_usable_gpus,
       .if_none = {.verdict = Verdict::kWarn,
                   .found = "this build does not include NCCL",
                   .remedy = "NCCL is needed only for several GPUs: for these, build dtrain on a host that has NCCL"}});
}

std::vector<Row> check_flags(const Examined& examined) {
  if (!examined.asked.job) return single_row("flags", Verdict::kSkip, kNoJob);
  return rows_of(
      "flags",
      judge_hosts(examined, nullptr,
                  [](const HostReport& host, const Facts& facts) -> Finding {
                    const bool data_fails = runs_workers(host) && !facts.data_error.empty();
                    const std::string& error = facts.flags_error.empty() ? facts.needs.error : facts.flags_error;
                    if (error.empty() || (data_fails && facts.flags_error.empty())) return {};
                    return {.verdict = Verdict::kFail,
                            .found = error,
                            .remedy = "correct the job's flags, or copy the files that they name to the host"};
                  }),
      "valid on each host");
}

std::vector<Row> check_data_present(const Examined& examined) {
  if (!examined.asked.job) return single_row("data", Verdict::kSkip, kNoJob);
  const bool any = std::any_of(examined.hosts.begin(), examined.hosts.end(), [](const HostReport& host) {
    return host.facts && (!host.facts->files.empty() || !host.facts->data_error.empty());
  });
  if (!any) return single_row("data", Verdict::kSkip, "the flags name no data");
  return rows_of("data", judge_hosts(examined, runs_workers,
                                     [](const HostReport&, const Facts& facts) { return judge_data(facts); }));
}

std::vector<Row> check_data_equal(const Examined& examined) {
  const std::map<std::string, std::string> usual = usual_files(examined);
  if (usual.empty()) return single_row("equal data", Verdict::kSkip, "no data to compare");
  std::vector<Finding> findings = judge_hosts(
      examined, [](const HostReport& host) { return runs_workers(host) && !host.facts->files.empty(); },
      [&](const HostReport&, const Facts& facts) { return judge_equality(facts, usual); });
  if (findings.size() < 2) return single_row("equal data", Verdict::kSkip, "only one host reads the data");
  return rows_of("equal data", findings, "sizes and checksums are the same on all hosts");
}

std::vector<Row> check_memory(const Examined& examined) {
  if (!examined.asked.job) return memory_row(examined);
  const auto is_known = [](const HostReport& host) {
    return runs_processes(host) && host.facts->needs.error.empty() && host.facts->needs.worker > 0;
  };
  std::vector<double> free;
  std::vector<Finding> findings = judge_hosts(examined, is_known, [&](const HostReport& host, const Facts& facts) {
    free.push_back(facts.memory_free_bytes);
    return judge_memory(host, facts);
  });
  return rows_of(
      "memory", findings, fmt::format("the processes fit; {} are free", range_text(free, bytes_text)),
      "the job's memory need is unknown: give --network, and either data or --num-classes and --image-shape");
}

std::vector<Row> check_disk_speed(const Examined& examined) {
  std::vector<double> written, read;
  for (const HostReport& host : examined.hosts) {
    if (!host.facts) continue;
    if (host.facts->speeds.disk_write > 0) written.push_back(host.facts->speeds.disk_write);
    if (host.facts->speeds.disk_read > 0) read.push_back(host.facts->speeds.disk_read);
  }
  const double usual = written.empty() ? 0 : median(written);
  const auto measured = [](const HostReport& host) {
    return host.facts->speeds.disk_write > 0 || !host.facts->speeds.disk_error.empty();
  };
  const std::vector<Finding> findings =
      judge_hosts(examined, measured, [&](const HostReport&, const Facts& facts) -> Finding {
        const Speeds& speeds = facts.speeds;
        if (!speeds.disk_error.empty()) {
          return {.verdict = Verdict::kWarn,
                  .found = speeds.disk_error,
                  .remedy = "choose a writable directory with --run-dir"};
        }
        if (speeds.disk_write * 3 >= usual) return {};
        return {.verdict = Verdict::kWarn,
                .found = fmt::format("writes {}, usually {}", rate_text(speeds.disk_write), rate_text(usual)),
                .remedy = "check the load and the health of the disk; checkpoints take longer on this host"};
      });
  std::string summary = fmt::format("writes {}", range_text(written, rate_text));
  if (!read.empty()) summary += fmt::format(", reads data {}", range_text(read, rate_text));
  return speed_row(examined, "disk speed", findings, summary);
}

std::vector<Row> check_decode_speed(const Examined& examined) {
  std::vector<double> all;
  for (const HostReport& host : examined.hosts) {
    if (host.facts && host.facts->speeds.decode > 0) all.push_back(host.facts->speeds.decode);
  }
  const double usual = all.empty() ? 0 : median(all);
  const auto rate = [](double value) { return fmt::format("{:.0f}", value); };
  const auto measured = [](const HostReport& host) {
    return runs_workers(host) && (host.facts->speeds.decode > 0 || !host.facts->speeds.decode_error.empty());
  };
  const std::vector<Finding> findings =
      judge_hosts(examined, measured, [&](const HostReport&, const Facts& facts) -> Finding {
        if (!facts.speeds.decode_error.empty()) {
          return {.verdict = Verdict::kFail,
                  .found = facts.speeds.decode_error,
                  .remedy = "correct the data, or the flags that describe them"};
        }
        if (facts.speeds.decode * 2 >= usual) return {};
        return {.verdict = Verdict::kWarn,
                .found = fmt::format("{:.0f} images/s, usually {:.0f}", facts.speeds.decode, usual),
                .remedy = "end other programs on this host, or give its workers more threads (--data-nthreads)"};
      });
  return speed_row(examined, "decode speed", findings, range_text(all, rate) + " images/s per worker");
}

std::vector<Row> check_all(const Examined& examined) {
  std::vector<Row> all;
  for (const auto& check :
       {check_reach,     check_build,         check_processor,  check_open_files, check_shared_memory, check_names,
        check_interface, check_ports,         check_clock,      check_gpus,       check_driver,        check_cuda,
        check_nccl,      check_run_directory, check_disk_space, check_flags,      check_data_present,  check_data_equal,
        check_memory,    check_latency,       check_bandwidth,  check_disk_speed, check_decode_speed}) {
    for (Row& row : check(examined)) all.push_back(std::move(row));
  }
  return all;
}

int exit_code(const Examined& examined, const std::vector<Row>& rows) {
  for (const HostReport& host : examined.hosts) {
    if (!host.facts) return job::kExitStartup;
  }
  const bool failed =
      std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.verdict == Verdict::kFail; });
  return failed ? job::kExitInternal : job::kExitOk;
}

}  // namespace dtrain::doctor
