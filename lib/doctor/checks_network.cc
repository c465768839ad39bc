// Checks of names, addresses and the connections between the hosts.
#include <fmt/ranges.h>
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/median.h"
#include "doctor/findings.h"

namespace dtrain::doctor {
namespace {

bool is_alone(const Examined& examined) {
  return examined.hosts.size() == 1;
}

bool all_are_one_host(const Examined& examined) {
  return std::all_of(examined.hosts.begin(), examined.hosts.end(), [](const HostReport& host) { return host.is_here; });
}

// Only the cause of the error. The ends of the connection are named elsewhere in the row, and the port differs from
// examination to examination.
std::string cause_of(const std::string& error) {
  if (!error.starts_with("cannot connect to ")) return error;
  const size_t end = error.find(": ");
  return end == std::string::npos ? error : error.substr(end + 2);
}

// A failed connection: the names of the two hosts, and the error.
struct Blocked {
  std::string from, to, error;
};

std::vector<Blocked> blocked_connections(const Examined& examined) {
  std::vector<Blocked> blocked;
  for (const HostReport& host : examined.hosts) {
    for (const Contact& contact : host.contacts) {
      if (contact.error.empty()) continue;
      blocked.push_back({host.name, examined.hosts[static_cast<size_t>(contact.host)].name, cause_of(contact.error)});
    }
  }
  return blocked;
}

std::string remedy_for_blocked(const std::string& error) {
  if (error.find("refused") != std::string::npos) {
    return "allow connections in the target's firewall (--port-range FIRST-LAST limits the ports)";
  }
  if (error.find("No route") != std::string::npos || error.find("unreachable") != std::string::npos) {
    return "choose the interface of a network that all hosts share: -i NAME";
  }
  return "allow these ports in the firewalls between the hosts (--port-range FIRST-LAST limits the ports), or choose "
         "another interface with -i";
}

// If several hosts fail to connect to the same host, or one host fails to connect to several others, with the same
// error, a single finding names this host; there is no finding for each pair.
std::vector<Finding> findings_of(const std::vector<Blocked>& blocked) {
  // The other ends of failed connections, indexed by host and error.
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> to, from;
  for (const Blocked& one : blocked) {
    to[{one.to, one.error}].push_back(one.from);
    from[{one.from, one.error}].push_back(one.to);
  }
  std::vector<Finding> findings;
  const auto add = [&](const std::string& host, const std::string& found, const std::string& error) {
    findings.push_back({host, Verdict::kFail, fmt::format("{}: {}", found, error), remedy_for_blocked(error)});
  };
  for (const Blocked& one : blocked) {
    const std::vector<std::string>& sources = to[{one.to, one.error}];
    const std::vector<std::string>& targets = from[{one.from, one.error}];
    if (sources.size() >= targets.size()) {
      if (sources.front() != one.from) continue;
      add(one.to, fmt::format("cannot be reached from {}", some_of(sources)), one.error);
    } else if (targets.front() == one.to) {
      add(one.from, fmt::format("cannot connect to {}", some_of(targets)), one.error);
    }
  }
  return findings;
}

std::vector<double> round_trips(const Examined& examined) {
  std::vector<double> all;
  for (const HostReport& host : examined.hosts) {
    for (const Contact& contact : host.contacts) {
      if (contact.error.empty()) all.push_back(contact.round_trip_s);
    }
  }
  return all;
}

// How far the clock of `host` is ahead of the clock of the launcher's host.
std::optional<double> clock_ahead(const HostReport& host) {
  for (const Contact& contact : host.contacts) {
    if (contact.host == 0 && contact.error.empty()) return -contact.clock_ahead_s;
  }
  return std::nullopt;
}

// The names that the launcher's host cannot resolve; they are not reported as faults of the other hosts.
std::set<std::string> unknown_here(const Examined& examined) {
  std::set<std::string> unknown;
  if (!examined.hosts.front().facts) return unknown;
  for (const ResolvedName& name : examined.hosts.front().facts->names) {
    if (!name.error.empty()) unknown.insert(name.name);
  }
  return unknown;
}

Finding judge_name(const Examined& examined, const HostReport& host, const Facts& facts) {
  const std::set<std::string> blamed = host.is_launcher ? std::set<std::string>() : unknown_here(examined);
  std::vector<std::string> unknown;
  std::string error;
  for (const ResolvedName& name : facts.names) {
    if (name.error.empty() || blamed.contains(name.name)) continue;
    if (unknown.empty()) error = name.error;
    unknown.push_back(name.name);
  }
  if (unknown.empty()) return {.found = fmt::format("{} names resolved", facts.names.size())};
  const bool matters = host.is_launcher || examined.asked.names_matter;
  return {.verdict = matters ? Verdict::kFail : Verdict::kWarn,
          .found = fmt::format("cannot resolve {}: {}", some_of(unknown), error),
          .remedy = matters ? "correct the host file, or add the name to DNS or /etc/hosts"
                            : "add the name to DNS or to /etc/hosts on this host (dtrain itself uses addresses)"};
}

// For each name, the addresses to which most hosts resolve it.
std::map<std::string, std::string> usual_addresses(const Examined& examined) {
  std::map<std::string, std::vector<std::string>> by_name;
  for (const HostReport& host : examined.hosts) {
    if (!host.facts) continue;
    for (const ResolvedName& name : host.facts->names) {
      if (name.error.empty()) by_name[name.name].push_back(fmt::format("{}", fmt::join(name.addresses, " ")));
    }
  }
  std::map<std::string, std::string> usual;
  for (const auto& [name, addresses] : by_name) usual[name] = most_frequent(addresses);
  return usual;
}

// Warns if a name has other addresses here than on most hosts. A loopback address is accepted: /etc/hosts often maps a
// host's own name to one, which is harmless.
std::optional<Finding> judge_addresses(const Facts& facts, const std::map<std::string, std::string>& usual) {
  for (const ResolvedName& name : facts.names) {
    const std::string addresses = fmt::format("{}", fmt::join(name.addresses, " "));
    const bool own = addresses.starts_with("127.") || addresses == "::1";
    if (!name.error.empty() || own || addresses == usual.at(name.name)) continue;
    return Finding{
        .verdict = Verdict::kWarn,
        .found = fmt::format("'{}' resolves to {}, but to {} on most hosts", name.name, addresses, usual.at(name.name)),
        .remedy = "make /etc/hosts the same on all hosts"};
  }
  return std::nullopt;
}

}  // namespace

std::vector<Row> check_names(const Examined& examined) {
  const std::map<std::string, std::string> usual = usual_addresses(examined);
  const bool any = std::any_of(examined.hosts.begin(), examined.hosts.end(),
                               [](const HostReport& host) { return host.facts && !host.facts->names.empty(); });
  if (!any) return single_row("names", Verdict::kSkip, "no names of other hosts are used");
  return rows_of("names", judge_hosts(examined, nullptr, [&](const HostReport& host, const Facts& facts) -> Finding {
                   Finding finding = judge_name(examined, host, facts);
                   if (finding.verdict > Verdict::kPass) return finding;
                   return judge_addresses(facts, usual).value_or(finding);
                 }));
}

std::vector<Row> check_interface(const Examined& examined) {
  return rows_of(
      "interface",
      judge_hosts(examined, nullptr,
                  [&](const HostReport& /*host*/, const Facts& facts) -> Finding {
                    if (!facts.address_error.empty()) {
                      return {.verdict = Verdict::kFail,
                              .found = facts.address_error,
                              .remedy =
                                  "give the name of an interface of this host: -i NAME,NAME (each host uses the first "
                                  "interface that it has)"};
                    }
                    const bool loopback = facts.address.starts_with("127.") || facts.address == "::1";
                    if (loopback && !all_are_one_host(examined)) {
                      return {.verdict = Verdict::kFail,
                              .found = fmt::format("its address is {}, which other hosts cannot reach", facts.address),
                              .remedy = "choose a network interface with -i NAME"};
                    }
                    return {.found = facts.address};
                  }),
      "each host has an address");
}

std::vector<Row> check_ports(const Examined& examined) {
  std::vector<Finding> findings;
  size_t connections = 0, listening = 0;
  for (const HostReport& host : examined.hosts) {
    if (!host.facts || !host.facts->address_error.empty()) continue;
    if (!host.facts->listen_error.empty()) {
      findings.push_back({host.name, Verdict::kFail, host.facts->listen_error,
                          "give ports that are free on every host: --port-range FIRST-LAST"});
    } else {
      listening++;
    }
    if (!host.contact_error.empty()) {
      findings.push_back({host.name, Verdict::kFail, host.contact_error,
                          "run dtrain doctor again; if the error persists, read the host's log"});
    }
    connections += host.contacts.size();
  }
  for (Finding& finding : findings_of(blocked_connections(examined))) findings.push_back(std::move(finding));
  if (findings.empty() && listening == 0) return single_row("ports", Verdict::kSkip, "no host could be examined");
  if (findings.empty() && connections == 0) {
    return single_row("ports", Verdict::kPass,
                      is_alone(examined) ? "this host can listen" : "there are no two hosts to connect");
  }
  if (findings.empty()) {
    return single_row(
        "ports", Verdict::kPass,
        fmt::format("all {} connections work, in both directions between the hosts and to this host", connections));
  }
  return rows_of("ports", findings);
}

// Checks that the hosts' clocks agree: otherwise logs are hard to compare, and TLS certificates and tokens of the
// scheduler may seem to be invalid, because they depend on the time.
std::vector<Row> check_clock(const Examined& examined) {
  constexpr double kWarn = 1, kFail = 300;
  if (is_alone(examined)) return single_row("clock", Verdict::kSkip, "only one host");
  std::vector<double> differences;
  std::vector<Finding> findings;
  for (const HostReport& host : examined.hosts) {
    const std::optional<double> ahead = host.is_launcher ? std::nullopt : clock_ahead(host);
    if (!ahead) continue;
    differences.push_back(std::abs(*ahead));
    Finding finding{.host = host.name};
    if (differences.back() >= kWarn) {
      finding.verdict = differences.back() >= kFail ? Verdict::kFail : Verdict::kWarn;
      finding.found = fmt::format("its clock is {} {} this host's", seconds_text(differences.back()),
                                  *ahead > 0 ? "ahead of" : "behind");
      finding.remedy = "synchronize the clocks with NTP: timedatectl set-ntp true, or start chrony";
    }
    findings.push_back(std::move(finding));
  }
  const double most = differences.empty() ? 0 : *std::max_element(differences.begin(), differences.end());
  return rows_of("clock", findings, fmt::format("within {} of this host's clock", seconds_text(std::max(most, 1e-3))),
                 "no host could connect to this host");
}

std::vector<Row> check_latency(const Examined& examined) {
  const std::vector<double> all = round_trips(examined);
  if (!examined.asked.perf || all.empty()) {
    return single_row("latency", Verdict::kSkip, examined.asked.perf ? "no connections" : "skipped without --perf");
  }
  const double usual = median(all);
  const double high = std::max(10 * usual, 2e-3);
  std::vector<Finding> findings;
  for (const HostReport& host : examined.hosts) {
    for (const Contact& contact : host.contacts) {
      if (!contact.error.empty() || contact.round_trip_s < high) continue;
      const std::string& to = examined.hosts[static_cast<size_t>(contact.host)].name;
      findings.push_back({host.name, Verdict::kWarn,
                          fmt::format("a round trip to {} takes {}, but usually {}", to,
                                      seconds_text(contact.round_trip_s), seconds_text(usual)),
                          "check the cable, the switch and the load of both hosts"});
    }
  }
  if (!findings.empty()) return rows_of("latency", findings);
  return single_row("latency", Verdict::kPass, fmt::format("a round trip takes {}", range_text(all, seconds_text)));
}

std::vector<Row> check_bandwidth(const Examined& examined) {
  std::vector<double> all;
  for (const PairSpeed& pair : examined.pairs) {
    if (pair.speed.error.empty()) all.insert(all.end(), {pair.speed.out, pair.speed.back});
  }
  if (all.empty() && examined.pairs.empty()) {
    return single_row("bandwidth", Verdict::kSkip, examined.asked.perf ? "no two hosts" : "skipped without --perf");
  }
  const double usual = all.empty() ? 0 : median(all);
  std::vector<Finding> findings;
  const auto add_slow = [&](size_t from, size_t to, double speed) {
    if (speed * 2 >= usual) return;
    findings.push_back(
        {examined.hosts[from].name, Verdict::kWarn,
         fmt::format("{} to {}, but usually {}", rate_text(speed), examined.hosts[to].name, rate_text(usual)),
         "check the cable and the switch (ethtool), or choose a faster network with -i"});
  };
  for (const PairSpeed& pair : examined.pairs) {
    if (!pair.speed.error.empty()) {
      findings.push_back({examined.hosts[pair.from].name, Verdict::kFail,
                          fmt::format("to {}: {}", examined.hosts[pair.to].name, pair.speed.error),
                          "read the row 'ports', and run dtrain doctor --perf again"});
      continue;
    }
    add_slow(pair.from, pair.to, pair.speed.out);
    add_slow(pair.to, pair.from, pair.speed.back);
  }
  if (!findings.empty()) return rows_of("bandwidth", findings);
  return single_row("bandwidth", Verdict::kPass, range_text(all, rate_text));
}

}  // namespace dtrain::doctor
