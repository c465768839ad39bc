#include "job/process/host_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "base/file.h"
#include "base/printable.h"
#include "base/words.h"
#include "job/flags/flags.h"
#include "job/flags/value.h"

namespace dtrain::job {

namespace {

// The text becomes an argument of ssh, so it must not look like an option or a path.
bool is_name(std::string_view text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
  return !text.empty() && text.front() != '-' && text.find_first_not_of(kPlain) == std::string_view::npos;
}

bool is_v6(std::string_view text) {
  constexpr std::string_view kPlain = "0123456789abcdefABCDEF:.%";  // "%" and an interface name may follow the address
  const std::string_view address = text.substr(0, text.find('%'));
  return address.find(':') != std::string_view::npos && address.find_first_not_of(kPlain) == std::string_view::npos &&
         (address.size() == text.size() || is_name(text.substr(address.size() + 1)));
}

Result<int64_t> parse_port(std::string_view text) {
  int64_t port = 0;
  DT_TRY_VOID(parse_value(text, port));
  if (port < 1 || port > 65535) return fail(Code::kUsage, "'{}' is not a port from 1 to 65535", printable(text));
  return port;
}

Result<> parse_user(std::string_view text, HostLine& line) {
  if (!is_name(text)) return fail(Code::kUsage, "'{}' is not the name of a user", printable(text));
  if (!line.user.empty()) return fail(Code::kUsage, "the user is given twice, as {}@ and user={}", line.user, text);
  line.user = text;
  return {};
}

// "host", "host:port", "[v6]", "[v6]:port", each also with "user@" before it.
Result<> parse_host(std::string_view text, HostLine& line) {
  if (const size_t at = text.find('@'); at != std::string_view::npos) {
    DT_TRY_VOID(parse_user(text.substr(0, at), line));
    text.remove_prefix(at + 1);
  }
  std::string_view host = text, rest;
  if (text.starts_with('[')) {
    const size_t end = std::min(text.find(']'), text.size());
    host = text.substr(1, end - 1);
    rest = text.substr(std::min(end + 1, text.size()));
    if (end == text.size() || !is_v6(host))
      return fail(Code::kUsage, "'{}' is not an IPv6 address in brackets", printable(text));
  } else if (std::count(text.begin(), text.end(), ':') > 1) {
    return fail(Code::kUsage, "an IPv6 address needs brackets: [{}]", printable(text));
  } else {
    host = text.substr(0, text.find(':'));
    rest = text.substr(host.size());
    if (!is_name(host)) return fail(Code::kUsage, "'{}' is not the name or address of a host", printable(host));
  }
  line.host = host;
  if (rest.empty()) return {};
  if (rest.front() != ':') return fail(Code::kUsage, "'{}' after the address is not a port", printable(rest));
  DT_TRY(line.ssh_port, parse_port(rest.substr(1)));
  // In Horovod's host files, the number after the colon is a number of processes, so a small number is probably not a
  // port.
  constexpr int64_t kUsualSshPort = 22;
  if (line.ssh_port >= kUsualSshPort) return {};
  return fail(Code::kUsage,
              "'{}': the number after the colon is the ssh port of the host, and {} is too low for a port; for {} "
              "processes on the host, write '{} slots={}'",
              printable(text), line.ssh_port, line.ssh_port, printable(host), line.ssh_port);
}

Result<> parse_slots(std::string_view text, HostLine& line) {
  DT_TRY_VOID(parse_value(text, line.slots));
  if (*line.slots < 1)
    return fail(Code::kUsage, "a host needs at least 1 slot, not {}; remove its line to leave it out", printable(text));
  return {};
}

Result<> parse_gpus(std::string_view text, HostLine& line) {
  if (text == "auto") {
    line.gpus = GpuList::all();
    return {};
  }
  DT_TRY_VOID(parse_value(text, line.gpus));
  const bool is_part = line.gpus.parts > 1;
  if (!line.gpus.empty() && !is_part) return {};
  return fail(Code::kUsage, "'{}' does not name GPUs of the host: give numbers such as 0,1 or 0-3, or auto",
              printable(text));
}

Result<> parse_role(std::string_view text, HostLine& line) {
  if (text == "any") return {};
  if (text != "server" && text != "worker") return unknown_choice(text, {"server", "worker", "any"});
  return parse_value(text, line.role);
}

Result<> parse_spare(std::string_view text, HostLine& line) {
  if (text != "0" && text != "1") return fail(Code::kUsage, "'{}' is neither 0 nor 1", printable(text));
  line.is_spare = text == "1";
  return {};
}

Result<> parse_key(std::string_view key, std::string_view value, HostLine& line) {
  if (key == "slots") return parse_slots(value, line);
  if (key == "gpus") return parse_gpus(value, line);
  if (key == "role") return parse_role(value, line);
  if (key == "user") return parse_user(value, line);
  if (key == "spare") return parse_spare(value, line);
  return unknown_choice(key, {"slots", "gpus", "role", "user", "spare"});
}

Result<HostLine> parse_line(const WordLine& words) {
  HostLine line;
  line.number = words.number;
  DT_TRY_VOID(parse_host(words.words.front(), line));
  std::set<std::string_view> keys;
  for (size_t i = 1; i < words.words.size(); i++) {
    const std::string_view word = words.words[i];
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) return fail(Code::kUsage, "'{}' is not KEY=VALUE", printable(word));
    const std::string_view key = word.substr(0, equals);
    if (!keys.insert(key).second) return fail(Code::kUsage, "{} is given twice", printable(key));
    const Result<> parsed = parse_key(key, word.substr(equals + 1), line);
    if (!parsed) return fail(Code::kUsage, "{}: {}", printable(key), parsed.error().message);
  }
  return line;
}

// Hands out the slots of the hosts one by one.
class Places {
 public:
  Places(const HostFile& file, HostOrder order) : file_(file), order_(order), used_(file.lines.size()) {}

  // Starts placing the processes of this role.
  void begin(Role role) {
    turns_.clear();
    for (size_t i = 0; i < file_.lines.size(); i++) {
      const size_t line = (begin_ + i) % file_.lines.size();
      const HostLine& host = file_.lines[line];
      const bool takes_role = host.role == Role::kNone || host.role == role;
      if (takes_role && !host.is_spare) turns_.push_back(line);
    }
  }

  // Returns the line of the next process; nullopt if no slot is left for its role.
  std::optional<size_t> take() {
    while (!turns_.empty() && is_full(turns_.front())) turns_.pop_front();
    if (turns_.empty()) return std::nullopt;
    const size_t line = turns_.front();
    used_[line]++;
    if (order_ == HostOrder::kSpread) {
      turns_.pop_front();
      turns_.push_back(line);
      begin_ = line + 1;
    }
    return line;
  }

 private:
  bool is_full(size_t line) const {
    const std::optional<int64_t>& slots = file_.lines[line].slots;
    return slots && used_[line] >= *slots;
  }

  const HostFile& file_;
  HostOrder order_;
  std::vector<int64_t> used_;  // number of slots of each line that are taken, indexed by line
  size_t begin_ = 0;           // the line to try first
  std::deque<size_t> turns_;   // the lines for the role, the next one first; full lines leave when their turn comes
};

Result<std::vector<size_t>> take_places(Places& places, const std::string& file, Role role, int64_t count) {
  std::vector<size_t> lines;
  places.begin(role);
  for (int64_t rank = 0; rank < count; rank++) {
    const std::optional<size_t> line = places.take();
    if (!line) {
      return fail(Code::kUsage, "{}: there is no slot for {} {} (of {}): add hosts or slots", file, format_value(role),
                  rank, count);
    }
    lines.push_back(*line);
  }
  return lines;
}

// Identifies a host. The same name with another port may be another host.
using HostKey = std::pair<std::string_view, int64_t>;
HostKey host_of(const HostLine& line) {
  return {line.host, line.ssh_port};
}

struct Shared {
  GpuList gpus;                 // the GPUs of all lines of the host, without repetitions
  std::vector<size_t> workers;  // ranks of the host's workers
};

Result<> divide_gpus(const HostFile& file, const std::vector<size_t>& line_of, bool all_gpus,
                     std::vector<ProcessSlot>& workers) {
  std::map<HostKey, Shared> hosts;
  for (const HostLine& line : file.lines) {
    if (!line.is_spare) add_gpus(line.gpus, hosts[host_of(line)].gpus);
  }
  for (size_t rank = 0; rank < line_of.size(); rank++) {
    hosts[host_of(file.lines[line_of[rank]])].workers.push_back(rank);
  }
  for (const auto& [host, shared] : hosts) {
    const GpuList gpus = shared.gpus.empty() && all_gpus ? GpuList::all() : shared.gpus;
    if (gpus.empty()) continue;
    const auto parts = std::ssize(shared.workers), count = std::ssize(gpus.numbers);
    if (gpus.has_numbers() && parts > count) {
      return fail(Code::kUsage, "{}: {} has {} GPUs for {} workers; each worker needs one", file.name,
                  printable(host.first), count, parts);
    }
    for (int64_t i = 0; i < parts; i++) {
      workers[shared.workers[static_cast<size_t>(i)]].gpus = part_of(gpus, i, parts);
    }
  }
  return {};
}

ProcessSlot slot_at(const HostLine& line) {
  return {line.host, {}, {line.host, line.ssh_port, line.user}};
}

Result<> check_pack(const HostFile& file) {
  for (const HostLine& line : file.lines) {
    if (line.slots || line.is_spare) continue;
    return fail(Code::kUsage,
                "{}:{}: --host-order pack needs slots=K for '{}', the number of processes to place on the host",
                file.name, line.number, printable(line.host));
  }
  return {};
}

}  // namespace

Result<HostFile> parse_host_file(std::string_view text, const std::string& name) {
  HostFile file{name, {}};
  const std::string plain = without_comments(text);
  for (const WordLine& words : word_lines(plain)) {
    Result<HostLine> line = parse_line(words);
    if (!line) return fail(Code::kUsage, "{}:{}: {}", name, words.number, line.error().message);
    file.lines.push_back(*std::move(line));
  }
  const bool has_host = !std::ranges::all_of(file.lines, &HostLine::is_spare);
  if (!has_host) {
    return fail(Code::kUsage, "{}: the file lists no {}", name, file.lines.empty() ? "host" : "host that is no spare");
  }
  return file;
}

std::optional<std::string> use_spare(HostFile& file, const SshAddress& lost) {
  const auto spare = std::ranges::find_if(file.lines, &HostLine::is_spare);
  if (spare == file.lines.end()) return std::nullopt;
  const HostLine by = *spare;
  file.lines.erase(spare);
  for (HostLine& line : file.lines) {
    if (line.is_spare || SshAddress{line.host, line.ssh_port, line.user} != lost) continue;
    line.host = by.host;
    line.ssh_port = by.ssh_port;
    line.user = by.user;
    if (!by.gpus.empty()) line.gpus = by.gpus;
  }
  return by.host;
}

std::vector<SshAddress> ssh_addresses(const HostFile& file) {
  std::vector<SshAddress> addresses;
  std::set<std::string> seen;  // texts, because clang-tidy rejects code that orders SshAddress by its operator <=>
  for (const HostLine& line : file.lines) {
    const bool is_new = seen.insert(fmt::format("{}@{} {}", line.user, line.host, line.ssh_port)).second;
    if (is_new) addresses.push_back({line.host, line.ssh_port, line.user});
  }
  return addresses;
}

Result<HostAssignment> assign_hosts(const HostFile& file, const AssignmentOptions& options) {
  if (options.order == HostOrder::kPack) DT_TRY_VOID(check_pack(file));
  Places places(file, options.order);
  DT_TRY(const std::vector<size_t> of_servers, take_places(places, file.name, Role::kServer, options.servers));
  DT_TRY(const std::vector<size_t> of_workers, take_places(places, file.name, Role::kWorker, options.workers));
  HostAssignment assignment;
  for (const size_t line : of_servers) assignment.servers.push_back(slot_at(file.lines[line]));
  for (const size_t line : of_workers) assignment.workers.push_back(slot_at(file.lines[line]));
  DT_TRY_VOID(divide_gpus(file, of_workers, options.all_gpus, assignment.workers));
  for (const HostLine& line : file.lines) {
    if (!line.is_spare) continue;
    assignment.spares.push_back(slot_at(line));
    assignment.spares.back().gpus = line.gpus;
  }
  return assignment;
}

AssignmentOptions assignment_options(const Flags& flags) {
  return {.servers = flags.job.num_servers,
          .workers = flags.job.num_workers,
          .order = flags.launch.host_order,
          .all_gpus = flags.device.gpus.is_all()};
}

Result<std::optional<HostFile>> read_host_file(const Flags& flags) {
  const std::string& name = flags.launch.hostfile;
  if (name.empty()) return std::nullopt;
  const Result<std::string> text = read_file(name);
  if (!text && name.find_first_of(",:") != std::string::npos) {
    return fail(Code::kUsage,
                "-H {}: there is no such file; write the hosts into a file, one per line, as 'node1 slots=4'", name);
  }
  if (!text) {
    return fail(
        Code::kUsage,
        "-H: {}. The file lists the hosts of the job, one per line (docs/hosts.md). To start the whole job on this "
        "host, give --launcher local instead of -H",
        text.error().message);
  }
  return parse_host_file(*text, name);
}

Result<std::optional<HostAssignment>> read_host_assignment(const Flags& flags) {
  DT_TRY(const std::optional<HostFile> file, read_host_file(flags));
  if (!file) return std::nullopt;
  return assign_hosts(*file, assignment_options(flags));
}

}  // namespace dtrain::job
