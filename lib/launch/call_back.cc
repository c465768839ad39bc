#include "launch/call_back.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "base/file.h"
#include "base/words.h"
#include "launch/message.h"
#include "net/connecting.h"
#include "proc/this_host.h"

namespace dtrain::launch {
namespace {

constexpr auto kConnectTime = std::chrono::seconds(20);
constexpr const char* kHello = "hello";
constexpr uint64_t kMeetingMax = 1024;

// The number of this process among those that one command started. Open MPI and MPICH come first, because a job of
// Slurm or SGE may run mpirun.
int64_t number_here(const job::Environment& environment) {
  for (const auto& [name, first] : {std::pair("OMPI_COMM_WORLD_RANK", 0), std::pair("PMI_RANK", 0),
                                    std::pair("SLURM_PROCID", 0), std::pair("SGE_TASK_ID", 1)}) {
    const std::optional<std::string> text = environment(name);
    int64_t number = 0;
    if (!text) continue;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
    if (error == std::errc() && end == text->data() + text->size()) return number - first;
  }
  return -1;
}

// "node3" for "node3.cluster.example"; addresses stay as they are.
std::string_view short_name(std::string_view host) {
  const bool is_address = host.find_first_not_of("0123456789.") == std::string_view::npos;
  return is_address || host.find(':') != std::string_view::npos ? host : host.substr(0, host.find('.'));
}

}  // namespace

std::string to_line(const Hello& hello) {
  std::vector<std::string> words = {kHello, hello.key, std::to_string(hello.number), hello.host};
  words.insert(words.end(), hello.addresses.begin(), hello.addresses.end());
  return to_message(words);
}

Result<Hello> parse_hello(std::string_view line) {
  const Result<std::vector<std::string>> words = parse_message(line);
  if (!words || words->size() < 4 || words->front() != kHello)
    return fail(Code::kDenied, "the first line of the connection is not that of an agent");
  const std::vector<std::string>& all = *words;
  return Hello{all[1], number_of(all[2]), all[3], {all.begin() + 4, all.end()}};
}

Hello hello_of(const job::Environment& environment) {
  return {.key = environment(kAgentKey).value_or(""),
          .number = number_here(environment),
          // With several Slurm daemons on one host, only SLURMD_NODENAME distinguishes them.
          .host = environment("SLURMD_NODENAME").value_or(proc::this_host()),
          .addresses = net::own_address_texts()};
}

Result<UniqueFd> call_back(const net::Endpoint& launcher, const Hello& hello) {
  if (hello.key.empty()) {
    return fail(Code::kStartup, "{} is not set on {}: the command that starts the agents must pass it on", kAgentKey,
                hello.host);
  }
  DT_TRY(UniqueFd connection, net::connect_to(launcher, kConnectTime), "calling the launcher from {}", hello.host);
  const std::string line = to_line(hello);  // short enough for the send buffer of a new connection
  if (::write(connection.get(), line.data(), line.size()) != std::ssize(line))
    return fail(Code::kStartup, "the launcher at {} closed the connection", to_text(launcher));
  ::unsetenv(kAgentKey);  // hides the key from the processes that the agent starts
  return connection;
}

Result<Meeting> read_meeting(const std::string& path) {
  Result<std::string> text = read_file(path, kMeetingMax);
  if (!text) return fail(Code::kStartup, "reading the launcher's address: {}", text.error().message);
  const std::vector<WordLine> lines = word_lines(*text);
  if (lines.size() != 1 || lines[0].words.size() != 2)
    return fail(Code::kStartup, "{}: the file does not contain a launcher's address and key", path);
  DT_TRY(const net::Endpoint launcher, net::parse_endpoint(std::string(lines[0].words[0])), "reading {}", path);
  return Meeting{launcher, std::string(lines[0].words[1])};
}

std::vector<std::string> meeting_command(const std::string& path, const std::string& launcher) {
  constexpr const char* kWrite =
      R"(umask 077 && printf '%s %s\n' "$1" "$DTRAIN_AGENT_KEY" >"$0.new" && mv -f "$0.new" "$0")";
  return {"sh", "-c", kWrite, path, launcher};
}

std::optional<size_t> place_of(const Hello& hello, const std::vector<std::string>& hosts,
                               const std::vector<bool>& taken) {
  const auto find = [&](auto matches) -> std::optional<size_t> {
    for (size_t i = 0; i < hosts.size(); i++) {
      if (!taken[i] && matches(hosts[i])) return i;
    }
    return std::nullopt;
  };
  if (const auto named = find([&](const std::string& host) { return short_name(host) == short_name(hello.host); }))
    return named;
  if (const auto addressed = find([&](const std::string& host) {
        return std::find(hello.addresses.begin(), hello.addresses.end(), host) != hello.addresses.end();
      })) {
    return addressed;
  }
  const auto number = static_cast<size_t>(hello.number);
  if (hello.number >= 0 && number < hosts.size() && !taken[number]) return number;
  return find([](const std::string&) { return true; });
}

}  // namespace dtrain::launch
