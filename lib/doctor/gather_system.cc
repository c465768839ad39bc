#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/host_limits.h"
#include "doctor/gather.h"
#include "job/process/build_id.h"
#include "net/address_list.h"
#include "proc/this_host.h"

namespace dtrain::doctor {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// The text after "KEY:" or "KEY   :", on the first line of a /proc file that begins so.
std::string value_in(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(':');
    const size_t begin = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

Processor this_processor() {
  const std::string text = read_file("/proc/cpuinfo").value_or("");
  Processor processor{.name = value_in(text, "model name"), .cores = usable_cores()};
  std::istringstream flags(value_in(text, "flags"));
  std::set<std::string> has;
  for (std::string flag; flags >> flag;) has.insert(flag);
  for (const std::string& isa : known_isa()) {
    if (has.contains(isa)) processor.isa.push_back(isa);
  }
  return processor;
}

void look_at_shared_memory(Facts& facts) {
  struct statvfs status {};
  if (::statvfs("/dev/shm", &status) != 0) return;
  facts.shm_bytes = static_cast<int64_t>(status.f_blocks * status.f_frsize);
  facts.shm_free_bytes = static_cast<int64_t>(status.f_bavail * status.f_frsize);
}

// A request to the system's resolver, which is handled by a separate thread (getaddrinfo_a).
struct Lookup {
  std::string name;
  addrinfo hints{};
  gaicb request{};
};

std::vector<std::string> addresses_of(const addrinfo* list) {
  std::set<std::string> texts;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(entry->ai_addr, entry->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0) {
      texts.insert(text.data());
    }
  }
  return {texts.begin(), texts.end()};
}

ResolvedName result_of(Lookup& lookup) {
  ResolvedName resolved{.name = lookup.name};
  const int status = ::gai_error(&lookup.request);
  if (status == EAI_INPROGRESS) {
    resolved.error = "the name server did not answer in time";
  } else if (status != 0) {
    resolved.error = gai_strerror(status);
  } else {
    const net::AddressList list(lookup.request.ar_result);
    resolved.addresses = addresses_of(list.get());
  }
  return resolved;
}

// The reason why this user cannot write to the directory; empty if writing is possible. Creates nothing.
std::string why_not_writable(const std::string& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) return "it is not a directory";
  return ::access(directory.c_str(), W_OK | X_OK) == 0 ? "" : std::strerror(errno);
}

}  // namespace

void gather_system(Facts& facts) {
  facts.build_id = std::string(job::build_id());
  facts.host_name = proc::this_host();
  facts.processor = this_processor();
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) facts.open_files = static_cast<int64_t>(limit.rlim_cur);
  const UsableMemory memory = usable_memory();
  facts.memory_bytes = memory.bytes;
  facts.memory_free_bytes = memory.free_bytes;
  look_at_shared_memory(facts);
}

std::vector<ResolvedName> resolve_names(const std::vector<std::string>& names) {
  constexpr auto kPatience = std::chrono::seconds(6);
  // Never freed: if requests are not answered in time, threads of the resolver may use them until this process ends.
  auto* lookups = new std::vector<Lookup>(names.size());
  std::vector<gaicb*> list;
  for (size_t i = 0; i < names.size(); i++) {
    Lookup& lookup = (*lookups)[i];
    lookup.name = names[i];
    lookup.hints.ai_socktype = SOCK_STREAM;
    lookup.request.ar_name = lookup.name.c_str();
    lookup.request.ar_request = &lookup.hints;
    list.push_back(&lookup.request);
  }
  if (!list.empty()) ::getaddrinfo_a(GAI_NOWAIT, list.data(), static_cast<int>(list.size()), nullptr);
  const auto until = Clock::now() + kPatience;
  bool all_done = list.empty();
  while (!all_done && Clock::now() < until) {
    const timespec wait{.tv_sec = 0, .tv_nsec = 100'000'000};
    all_done = ::gai_suspend(list.data(), static_cast<int>(list.size()), &wait) == EAI_ALLDONE;
  }
  std::vector<ResolvedName> resolved;
  for (Lookup& lookup : *lookups) resolved.push_back(result_of(lookup));
  const auto waits = [](const Lookup& lookup) {
    return ::gai_error(const_cast<gaicb*>(&lookup.request)) == EAI_INPROGRESS;
  };
  if (std::none_of(lookups->begin(), lookups->end(), waits)) delete lookups;
  return resolved;
}

std::string nearest_existing(const std::string& path) {
  std::error_code error;
  fs::path at = fs::absolute(path, error).lexically_normal();
  while (!fs::exists(at, error) && at.has_parent_path() && at != at.parent_path()) at = at.parent_path();
  return at.string();
}

RunDirectory look_at_run_directory(const std::string& path) {
  std::error_code error;
  RunDirectory directory{.path = fs::absolute(path, error).lexically_normal().string(),
                         .existing = nearest_existing(path)};
  directory.error = why_not_writable(directory.existing);
  directory.writable = directory.error.empty();
  struct statvfs status {};
  if (::statvfs(directory.existing.c_str(), &status) == 0) {
    directory.free_bytes = static_cast<int64_t>(status.f_bavail * status.f_frsize);
  }
  return directory;
}

}  // namespace dtrain::doctor
