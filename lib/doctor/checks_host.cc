// Checks that look at each host separately: whether it can be reached, and what it offers.
#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <iterator>

#include "doctor/findings.h"
#include "job/process/open_files.h"

namespace dtrain::doctor {
namespace {

// Remedies for known messages of ssh and of the launcher; the first entry whose words occur in the message is used.
struct Known {
  std::string_view words;
  std::string_view remedy;  // HOST is a placeholder for the host
};

constexpr std::array kUnreachable = {
    Known{"Permission denied",
          "let ssh log in without a password: ssh-copy-id HOST; test: ssh -o BatchMode=yes HOST true"},
    Known{"Host key verification failed", "accept the host's key once: ssh HOST"},
    Known{"REMOTE HOST IDENTIFICATION HAS CHANGED",
          "if the host was reinstalled, forget its old key: ssh-keygen -R HOST"},
    Known{"Could not resolve hostname",
          "correct the name in the host file, or add it to DNS, /etc/hosts or ~/.ssh/config"},
    Known{"Name or service not known",
          "correct the name in the host file, or add it to DNS, /etc/hosts or ~/.ssh/config"},
    Known{"Connection refused", "start sshd on HOST, or correct its port in the host file"},
    Known{"timed out", "switch HOST on, or let its firewall admit port 22 (or the port of its sshd) from this host"},
    Known{"No route to host", "switch HOST on, or repair the route to its network"},
    Known{"has no executable", "install dtrain at the same path on HOST, or copy it there with --sync-dst-dir"},
    Known{"has no directory", "create the directory on HOST, or copy the current directory there with --sync-dst-dir"},
    Known{"libstdc++", "HOST lacks a library that dtrain needs: install the same packages as on this host"},
    Known{"error while loading shared libraries",
          "HOST lacks a library that dtrain needs: install the same packages as on this host"},
    Known{"GLIBC",
          "the operating system of HOST is older than the system that dtrain was built on: build dtrain on HOST"},
    Known{"No such file or directory", "install the program that starts the agents, or put it into PATH"},
    Known{"ended with code 132",
          "the processor of HOST lacks instructions that this build needs: build dtrain on HOST"},
};

void replace_host(std::string& text, const std::string& host) {
  for (size_t at = 0; (at = text.find("HOST", at)) != std::string::npos; at += host.size()) text.replace(at, 4, host);
}

// The number of file descriptors that a process on this host needs, computed as the processes do when they start.
int64_t open_files_needed(const Asked& asked, const HostReport& host) {
  int64_t needed = job::descriptors_for(0);
  if (host.is_launcher)
    needed = std::max(job::descriptors_for(asked.workers + asked.servers), asked.launcher_open_files);
  if (host.servers > 0) needed = std::max(needed, job::descriptors_for(job::kConnectionsPerServer * asked.workers));
  if (host.workers > 0) {
    const int64_t connections = asked.servers > 0 ? job::kConnectionsPerServer * asked.servers : asked.workers;
    needed = std::max(needed, job::descriptors_for(connections));
  }
  return needed;
}

// A short description of the instruction sets that matter most. Processors that are equal in them have the same text.
std::string isa_text(const Processor& processor) {
  const auto has = [&](const char* isa) {
    return std::find(processor.isa.begin(), processor.isa.end(), isa) != processor.isa.end();
  };
  std::string text = has("avx512f") ? "AVX-512" : has("avx2") ? "AVX2" : has("avx") ? "AVX" : "SSE";
  if (has("avx512_bf16")) text += " with bfloat16";
  if (has("amx_tile")) text += " and AMX";
  return text;
}

std::vector<std::string> missing_isa(const Processor& processor) {
  std::vector<std::string> missing;
  for (const std::string& isa : needed_isa()) {
    if (std::find(processor.isa.begin(), processor.isa.end(), isa) == processor.isa.end()) missing.push_back(isa);
  }
  return missing;
}

constexpr double kLittleDisk = 64 << 20;  // at least this much is needed for logs, metrics and events

// The least free space that the run directory needs: space for two checkpoints, because a new checkpoint is written
// before the old one is removed.
double disk_needed_at_least(const HostReport& host, const Facts& facts) {
  return host.has_first_worker ? std::max(kLittleDisk, 2 * facts.needs.checkpoint) : kLittleDisk;
}

double disk_needed_for_all(const Examined& examined, const HostReport& host, const Facts& facts) {
  if (!host.has_first_worker) return kLittleDisk;
  const auto count = static_cast<double>(examined.asked.checkpoints);
  return std::max(disk_needed_at_least(host, facts), count * facts.needs.checkpoint);
}

Finding judge_disk(const Examined& examined, const HostReport& host, const Facts& facts) {
  const RunDirectory& directory = facts.run_directory;
  const auto free = static_cast<double>(directory.free_bytes);
  const double least = disk_needed_at_least(host, facts), all = disk_needed_for_all(examined, host, facts);
  const std::string found = fmt::format("{} free for '{}'", bytes_text(free), directory.path);
  if (free < least) {
    return {.verdict = Verdict::kFail,
            .found = fmt::format("{}, but the run needs at least {}", found, bytes_text(least)),
            .remedy = "free some space, or choose another place with --run-dir"};
  }
  if (free < all) {
    return {.verdict = Verdict::kWarn,
            .found = fmt::format("{}, but all checkpoints take {}", found, bytes_text(all)),
            .remedy = "keep fewer checkpoints (--keep, --save-period), or choose another place with --run-dir"};
  }
  return {.found = found};
}

}  // namespace

std::string remedy_for_unreachable(std::string_view words, const std::string& host, const std::string& starter) {
  for (const Known& known : kUnreachable) {
    if (words.find(known.words) == std::string_view::npos) continue;
    std::string remedy(known.remedy);
    replace_host(remedy, host);
    return remedy;
  }
  return starter == "ssh"
             ? fmt::format("run this command and read its output: ssh -v -o BatchMode=yes {} true", host)
             : fmt::format("use {} to start the program hostname on {}, and read the output", starter, host);
}

std::vector<Row> check_reach(const Examined& examined) {
  if (examined.asked.starter.empty()) return {};
  std::vector<Finding> findings;
  for (const HostReport& host : examined.hosts) {
    if (host.is_launcher) continue;
    Finding finding{.host = host.name, .verdict = Verdict::kPass, .found = "an agent was started without a password"};
    if (!host.facts) {
      finding.verdict = Verdict::kFail;
      finding.found = host.error;
      finding.remedy = remedy_for_unreachable(host.error, host.name, examined.asked.starter);
    }
    findings.push_back(std::move(finding));
  }
  return rows_of(examined.asked.starter, findings);
}

std::vector<Row> check_build(const Examined& examined) {
  const HostReport& here = examined.hosts.front();
  const std::string own = here.facts ? here.facts->build_id : "";
  const bool mixed = examined.asked.allow_mixed_builds;
  return rows_of("build", judge_hosts(examined, nullptr, [&](const HostReport&, const Facts& facts) -> Finding {
                   if (facts.build_id == own || own.empty()) return {.found = facts.build_id};
                   return {.verdict = mixed ? Verdict::kWarn : Verdict::kFail,
                           .found = fmt::format("{}, but this host has {}", facts.build_id, own),
                           .remedy = "copy this host's executable to that host (--sync-dst-dir does this)"};
                 }));
}

std::vector<Row> check_processor(const Examined& examined) {
  std::vector<std::string> all;
  for (const HostReport& host : examined.hosts) {
    const bool counts = host.facts && (runs_processes(host) || examined.hosts.size() == 1);
    if (counts) all.push_back(isa_text(host.facts->processor));
  }
  if (all.empty()) return single_row("processor", Verdict::kSkip, "no host could be examined");
  const std::string usual = most_frequent(all);
  return rows_of(
      "processor",
      judge_hosts(examined, nullptr,
                  [&](const HostReport& host, const Facts& facts) -> Finding {
                    const Processor& processor = facts.processor;
                    const std::string isa = isa_text(processor);
                    const std::vector<std::string> missing = missing_isa(processor);
                    if (!missing.empty()) {
                      return {.verdict = Verdict::kFail,
                              .found = fmt::format("{} lacks {}", processor.name, fmt::join(missing, ", ")),
                              .remedy = "build dtrain on this host, or leave out the host"};
                    }
                    if (isa == usual || !runs_processes(host)) return {.found = isa};
                    return {.verdict = Verdict::kWarn,
                            .found = fmt::format("{} ({}), but most hosts have {}", isa, processor.name, usual),
                            .remedy = "speeds will differ: group the workers by speed (dtrain plan, dist_gsync)"};
                  }),
      usual);
}

std::vector<Row> check_open_files(const Examined& examined) {
  std::vector<double> limits;
  std::vector<Finding> findings =
      judge_hosts(examined, nullptr, [&](const HostReport& host, const Facts& facts) -> Finding {
        const int64_t needed = open_files_needed(examined.asked, host);
        limits.push_back(static_cast<double>(facts.open_files));
        if (facts.open_files >= needed) return {.found = fmt::format("{}", facts.open_files)};
        return {
            .verdict = Verdict::kFail,
            .found = fmt::format("{}, but the job's processes on this host need {}", facts.open_files, needed),
            .remedy =
                "raise the hard limit (ulimit -Hn) with nofile in /etc/security/limits.conf or LimitNOFILE of sshd"};
      });
  return rows_of("open files", findings, range_text(limits, [](double limit) { return fmt::format("{:.0f}", limit); }));
}

// Shared memory matters only to NCCL, which uses it between the GPUs of a host.
std::vector<Row> check_shared_memory(const Examined& examined) {
  constexpr double kEnough = 512 << 20;
  std::vector<double> sizes;
  std::vector<Finding> findings =
      judge_hosts(examined, nullptr, [&](const HostReport& host, const Facts& facts) -> Finding {
        const auto free = static_cast<double>(facts.shm_free_bytes);
        const bool several = host.gpus > 1;
        sizes.push_back(free);
        if (facts.shm_bytes == 0) {
          return {.verdict = several ? Verdict::kFail : Verdict::kWarn,
                  .found = "there is no /dev/shm",
                  .remedy = "mount it: mount -t tmpfs tmpfs /dev/shm; NCCL needs it between GPUs"};
        }
        const std::string found =
            fmt::format("{} free of {}", bytes_text(free), bytes_text(static_cast<double>(facts.shm_bytes)));
        if (!several || free >= kEnough) return {.found = found};
        return {
            .verdict = Verdict::kWarn,
            .found = fmt::format("{}, and NCCL uses it between the {} GPUs", found, host.gpus),
            .remedy =
                "enlarge it (mount -o remount,size=1g /dev/shm; docker run --shm-size=1g), or set NCCL_SHM_DISABLE=1"};
      });
  return rows_of("/dev/shm", findings, range_text(sizes, bytes_text) + " free");
}

std::vector<Row> check_run_directory(const Examined& examined) {
  if (!examined.asked.job)
    return single_row("run directory", Verdict::kSkip, "skipped, because no job flags were given");
  bool shared = true;
  for (const HostReport& host : examined.hosts) shared = shared && (host.is_launcher || host.shares_run_directory);
  const bool several = examined.hosts.size() > 1;
  return rows_of(
      "run directory",
      judge_hosts(
          examined, nullptr,
          [&](const HostReport& host, const Facts& facts) -> Finding {
            const RunDirectory& directory = facts.run_directory;
            if (!directory.writable) {
              return {.verdict = Verdict::kFail,
                      .found = fmt::format("'{}' is not writable: {}", directory.existing, directory.error),
                      .remedy = "allow this user to write there, or choose another place with --run-dir"};
            }
            if (several && !host.is_launcher && !host.shares_run_directory && examined.asked.resumes) {
              return {.verdict = Verdict::kWarn,
                      .found = fmt::format("'{}' is not the same directory as on this host", directory.path),
                      .remedy = "--resume needs a run directory that all hosts share: put it on a shared file system"};
            }
            return {};
          }),
      !several ? "writable"
      : shared ? "writable, shared by all hosts"
               : "writable, not shared: checkpoints stay on the host of worker 0");
}

std::vector<Row> check_disk_space(const Examined& examined) {
  std::vector<double> free;
  std::vector<Finding> findings = judge_hosts(examined, nullptr, [&](const HostReport& host, const Facts& facts) {
    free.push_back(static_cast<double>(facts.run_directory.free_bytes));
    return examined.asked.job ? judge_disk(examined, host, facts) : Finding{};
  });
  return rows_of(
      "disk space", findings,
      range_text(free, bytes_text) + (examined.asked.job ? " free in the run directory" : " free for runs/"));
}

}  // namespace dtrain::doctor
