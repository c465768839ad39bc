#include "job/spec/groups.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <map>
#include <optional>

#include "base/printable.h"
#include "base/words.h"
#include "job/flags/value.h"

namespace dtrain::job {

namespace {

// A word of the file, which names a worker.
struct Word {
  std::string_view text;
  std::string_view host;  // without brackets; empty: `number` is the rank
  // The rank, or the index among the host's workers; nullopt: the first worker of the host that is in no group yet.
  std::optional<size_t> number;
};

Result<size_t> parse_number(std::string_view text) {
  uint64_t number = 0;
  DT_TRY_VOID(parse_value(text, number));
  return static_cast<size_t>(number);
}

Result<Word> parse_word(std::string_view text) {
  Word word{text, text, std::nullopt};
  if (text.starts_with('#')) {
    word.host = {};
    DT_TRY(word.number, parse_number(text.substr(1)));
    return word;
  }
  const size_t bracket = text.starts_with('[') ? text.find(']') : std::string_view::npos;
  const bool in_brackets = bracket != std::string_view::npos;
  // An IPv6 address without brackets contains colons and has no slot.
  const bool plain_v6 = !in_brackets && std::count(text.begin(), text.end(), ':') > 1;
  const size_t colon = plain_v6 ? std::string_view::npos : text.find(':', in_brackets ? bracket : 0);
  if (colon != std::string_view::npos) {
    DT_TRY(word.number, parse_number(text.substr(colon + 1)));
    word.host = text.substr(0, colon);
  }
  if (in_brackets) word.host = text.substr(1, bracket - 1);
  if (word.host.empty()) return fail(Code::kUsage, "the host before the colon is missing");
  return word;
}

// The name of the worker's host, as in the file and in messages; empty if it has none.
const std::string& name_of(const WorkerPlace& place) {
  return place.host.empty() ? place.address : place.host;
}

// The ranks of the workers, indexed by host and by address.
std::map<std::string_view, std::vector<size_t>> ranks_by_place(const std::vector<WorkerPlace>& workers) {
  std::map<std::string_view, std::vector<size_t>> ranks_of;
  for (size_t rank = 0; rank < workers.size(); rank++) {
    const WorkerPlace& place = workers[rank];
    ranks_of[place.host].push_back(rank);
    if (place.address != place.host) ranks_of[place.address].push_back(rank);
  }
  return ranks_of;
}

class GroupsReader {
 public:
  GroupsReader(const GroupsFile& file, const std::vector<WorkerPlace>& workers)
      : file_(file), workers_(workers), group_(workers.size()), ranks_of_(ranks_by_place(workers)) {}

  Result<std::vector<int64_t>> read(Ungrouped ungrouped) {
    const std::vector<WordLine> lines = word_lines(file_.text);
    // Words with a number are resolved first. A host without a number then means one of that host's remaining workers.
    for (const bool by_number : {true, false}) {
      for (size_t group = 0; group < lines.size(); group++) {
        const Result<> taken = take_line(lines[group].words, static_cast<int64_t>(group), by_number);
        if (!taken) {
          return fail(Code::kUsage, "{}:{}: {}", file_.name, lines[group].number, taken.error().message);
        }
      }
    }
    return finish(std::ssize(lines), ungrouped);
  }

 private:
  Result<> take_line(const std::vector<std::string_view>& words, int64_t group, bool by_number) {
    for (const std::string_view text : words) {
      const Result<Word> word = parse_word(text);
      if (!word) return fail(Code::kUsage, "'{}': {}", printable(text), word.error().message);
      if (word->number.has_value() != by_number) continue;
      DT_TRY(const size_t rank, find(*word));
      if (group_[rank]) return fail(Code::kUsage, "'{}': {} is already in a group", printable(text), describe(rank));
      group_[rank] = group;
    }
    return {};
  }

  Result<size_t> find(const Word& word) const {
    if (word.host.empty()) {
      if (*word.number < workers_.size()) return *word.number;
      return fail(Code::kUsage, "there is no worker {}: the job has {} workers, numbered from 0", printable(word.text),
                  workers_.size());
    }
    const auto found = ranks_of_.find(word.host);
    if (found == ranks_of_.end()) {
      return fail(Code::kUsage, "no worker runs on '{}'; workers run on {}", printable(word.host),
                  fmt::join(places(), ", "));
    }
    const std::vector<size_t>& ranks = found->second;
    if (word.number && *word.number < ranks.size()) return ranks[*word.number];
    if (word.number) {
      return fail(Code::kUsage, "there is no worker '{}': '{}' has {} workers, numbered from 0", printable(word.text),
                  printable(word.host), ranks.size());
    }
    const auto free = std::find_if(ranks.begin(), ranks.end(), [this](size_t rank) { return !group_[rank]; });
    if (free != ranks.end()) return *free;
    return fail(Code::kUsage, "'{}' has {} workers, and all of them are already in a group", word.host, ranks.size());
  }

  [[nodiscard]] std::string describe(size_t rank) const {
    const std::string& name = name_of(workers_[rank]);
    return fmt::format("worker {}{}", rank, name.empty() ? "" : " (" + name + ")");
  }

  // The names of the workers' hosts, each once, in order of rank.
  std::vector<std::string> places() const {
    std::vector<std::string> names;
    for (const WorkerPlace& place : workers_) {
      if (std::find(names.begin(), names.end(), name_of(place)) == names.end()) names.push_back(name_of(place));
    }
    return names;
  }

  Result<std::vector<int64_t>> finish(int64_t groups, Ungrouped ungrouped) const {
    std::vector<int64_t> group_of;
    for (size_t rank = 0; rank < group_.size(); rank++) {
      if (!group_[rank] && ungrouped == Ungrouped::kError) {
        return fail(Code::kUsage,
                    "{}: {} is in no group: add it to a line as #{} or by its host, or give --ungrouped own",
                    file_.name, describe(rank), rank);
      }
      group_of.push_back(group_[rank] ? *group_[rank] : groups++);
    }
    return group_of;
  }

  const GroupsFile& file_;
  const std::vector<WorkerPlace>& workers_;
  std::vector<std::optional<int64_t>> group_;  // the group of each worker, indexed by rank
  // Ranks of the workers on each host, indexed by the host's name and by its address.
  std::map<std::string_view, std::vector<size_t>> ranks_of_;
};

}  // namespace

Result<std::vector<int64_t>> parse_groups(const GroupsFile& file, const std::vector<WorkerPlace>& workers,
                                          Ungrouped ungrouped) {
  DT_TRY(std::vector<int64_t> groups, GroupsReader(file, workers).read(ungrouped),
         "reading the groups of {} workers (`dtrain plan` with the flags of this job writes such a file)",
         workers.size());
  return groups;
}

std::string format_groups(const std::vector<int64_t>& groups, const std::vector<WorkerPlace>& workers) {
  const auto ranks_of = ranks_by_place(workers);
  const bool on_one_host = std::ranges::adjacent_find(workers, std::ranges::not_equal_to(), name_of) == workers.end();
  const auto word = [&](size_t rank) {
    const std::string& host = name_of(workers[rank]);
    if (on_one_host || host.empty()) return fmt::format("#{}", rank);
    const bool is_v6 = host.find(':') != std::string::npos;
    std::string name = is_v6 ? "[" + host + "]" : host;
    const std::vector<size_t>& ranks = ranks_of.at(host);
    if (ranks.size() == 1) return name;
    return fmt::format("{}:{}", name, std::ranges::find(ranks, rank) - ranks.begin());
  };
  std::vector<std::string> lines;
  for (size_t rank = 0; rank < groups.size(); rank++) {
    lines.resize(std::max(lines.size(), static_cast<size_t>(groups[rank]) + 1));
    std::string& line = lines[static_cast<size_t>(groups[rank])];
    line += (line.empty() ? "" : " ") + word(rank);
  }
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

bool looks_like_groups(std::string_view text) {
  constexpr std::string_view kHost = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]%";
  for (const WordLine& line : word_lines(text)) {
    for (const std::string_view word : line.words) {
      if (word.substr(word.starts_with('#') ? 1 : 0).find_first_not_of(kHost) != word.npos || !parse_word(word)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace dtrain::job
