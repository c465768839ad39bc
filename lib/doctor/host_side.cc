#include "doctor/host_side.h"

#include <algorithm>
#include <cstdio>

#include "doctor/gather.h"
#include "doctor/peers.h"
#include "role/process/addresses.h"
#include "role/process/run_dir.h"

namespace dtrain::doctor {
namespace {

constexpr auto kLifetime = std::chrono::minutes(30);
constexpr auto kContactLimit = std::chrono::seconds(5);

void print(std::string_view kind, const std::string& text) {
  std::fputs(fmt::format("{}{}\n", kind, text).c_str(), stdout);
  std::fflush(stdout);
}

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    words.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

struct Place {
  net::Listen listen;
  std::string address;  // address for the other hosts
};

// Where a process of the job with these flags would listen on this host.
Result<Place> place_of(const job::LaunchFlags& flags, const HostSide& side) {
  if (flags.role == job::Role::kScheduler) {
    DT_TRY(const net::Listen listen, role::scheduler_listen(flags, side.key));
    return Place{listen, role::scheduler_host(flags, listen)};
  }
  if (flags.role == job::Role::kNone) {
    DT_TRY(const std::string address, role::launcher_address(flags, {}));
    return Place{.listen = {.host = address}, .address = address};
  }
  DT_TRY(const role::ServerAddress address, role::server_address(flags, side.key));
  return Place{address.listen, address.host};
}

Result<Place> place_without_flags(const HostSide& side) {
  DT_TRY(const std::string address, net::source_address({side.launcher, 1}));
  return Place{.listen = {.host = address}, .address = address};
}

net::ListeningSockets listen_here(const HostSide& side, const Result<job::Flags>& flags, Facts& facts) {
  const Result<Place> place = flags ? place_of(flags->launch, side) : place_without_flags(side);
  if (!place) {
    facts.address_error = place.error().message;
    return {};
  }
  facts.address = place->address;
  Result<net::ListeningSockets> opened = listen_at(place->listen);
  if (!opened) {
    facts.listen_error = opened.error().message;
    return {};
  }
  facts.port = opened->port;
  return std::move(*opened);
}

}  // namespace

Result<> tell_facts(const HostSide& side, const Result<job::Flags>& flags) {
  Facts facts;
  gather_system(facts);
  facts.names = resolve_names(words_of(side.names));
  net::ListeningSockets listening = listen_here(side, flags, facts);
  if (flags) {
    facts.run_directory = look_at_run_directory(role::choose_run_dir(*flags, std::nullopt));
    gather_job(*flags, side.perf, facts);
  } else {
    facts.flags_error = flags.error().message;
    facts.run_directory = look_at_run_directory(".");
  }
  facts.wall_s = wall_clock_s();
  print(kFactsLine, to_line(facts));
  serve_peers(std::move(listening.sockets), side.key, kLifetime, Log::to_stderr("doctor"));
  return {};
}

Result<> tell_contacts(const HostSide& side, const std::string& targets) {
  DT_TRY(const std::vector<Target> all, parse_targets(targets));
  for (const Contact& contact : contact_all(all, side.key, kContactLimit)) print(kContactLine, to_line(contact));
  print(kContactsEnd, "");
  return {};
}

Result<> tell_speed(const HostSide& side, const std::string& peer) {
  constexpr auto kTime = std::chrono::milliseconds(150);
  DT_TRY(const net::Endpoint endpoint, net::parse_endpoint(peer));
  print(kSpeedLine, to_line(measure_path(endpoint, side.key, kTime)));
  return {};
}

}  // namespace dtrain::doctor
