#include "observe/runs/log_line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <system_error>

namespace dtrain::observe {
namespace {

constexpr std::string_view kDigits = "0123456789";

// Removes `begin` from the front of `text`, if it is there.
bool take(std::string_view& text, std::string_view begin) {
  if (!text.starts_with(begin)) return false;
  text.remove_prefix(begin.size());
  return true;
}

std::optional<int64_t> take_integer(std::string_view& text) {
  const std::string_view digits = text.substr(0, text.find_first_not_of(kDigits));
  int64_t value = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc()) return std::nullopt;
  text.remove_prefix(digits.size());
  return value;
}

// The number that the whole word represents, including "nan" and "inf".
std::optional<double> number_in(std::string_view word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

// The last '=' of a line that is followed by a digit or a point. MXNet's expression matches this one, because its
// second ".*" is greedy.
struct LastValue {
  size_t at = 0;                // position of the '='
  std::optional<double> value;  // the value after the '='; nullopt if it is not a number: "1.2.3", "."
};

std::optional<LastValue> last_value(std::string_view line) {
  constexpr std::string_view kNumber = ".0123456789";
  const auto with_exponent = [](std::string_view tail, size_t size) {
    const size_t sign = size + 1;
    if (size >= tail.size() || (tail[size] != 'e' && tail[size] != 'E')) return size;
    const size_t digits = sign < tail.size() && (tail[sign] == '-' || tail[sign] == '+') ? sign + 1 : sign;
    const size_t end = std::min(tail.find_first_not_of(kDigits, digits), tail.size());
    return end > digits ? end : size;
  };
  for (size_t at = line.rfind('='); at != std::string_view::npos;
       at = at == 0 ? std::string_view::npos : line.rfind('=', at - 1)) {
    const std::string_view tail = line.substr(at + 1);
    const size_t size = std::min(tail.find_first_not_of(kNumber), tail.size());
    if (size == 0) continue;
    return LastValue{at, number_in(tail.substr(0, with_exponent(tail, size)))};
  }
  return std::nullopt;
}

constexpr std::string_view kEpoch = "Epoch[";

std::optional<EpochValue> epoch_at(std::string_view line, size_t at, const LastValue& last) {
  std::string_view rest = line.substr(at + kEpoch.size());
  const std::optional<int64_t> epoch = take_integer(rest);
  if (!epoch || !take(rest, "] ") || last.at < line.size() - rest.size()) return std::nullopt;
  if (!rest.starts_with("Train") && !rest.starts_with("Valid") && !rest.starts_with("Time")) return std::nullopt;
  return EpochValue{*epoch, rest.substr(0, rest.find_first_of("= \t")), *last.value};
}

// Returns the name and the value in "accuracy=0.5" or "Train-accuracy=0.5".
std::optional<std::pair<std::string_view, double>> value_in(std::string_view field) {
  (void)take(field, "Train-");
  const size_t equal = field.rfind('=');
  if (equal == std::string_view::npos) return std::nullopt;
  const std::optional<double> value = number_in(field.substr(equal + 1));
  if (!value) return std::nullopt;
  return std::pair(field.substr(0, equal), *value);
}

// The last number in "[0-20]" or "[20]".
std::optional<int64_t> take_batch(std::string_view& text) {
  if (!take(text, "[")) return std::nullopt;
  std::optional<int64_t> batch = take_integer(text);
  if (take(text, "-")) batch = take_integer(text);
  return take(text, "]") ? batch : std::nullopt;
}

void add_window(std::string_view rest, TrainingLine& line) {
  const std::optional<SpeedText> speed = find_speed(rest);
  if (!speed) return;
  line.speed = number_in(speed->speed);
  for (std::string_view values = speed->values; take(values, "\t");) {
    const std::string_view field = values.substr(0, values.find('\t'));
    if (const auto value = value_in(field)) line.values.push_back(*value);
    values.remove_prefix(field.size());
  }
}

// Parses "Train-accuracy=0.5", "Validation-accuracy=0.5" or "Time cost=12.3".
bool add_value(std::string_view rest, TrainingLine& line) {
  if (take(rest, "Time cost=")) {
    line.kind = TrainingLine::Kind::kTime;
    const std::optional<double> seconds = number_in(rest);
    if (seconds) line.values.emplace_back("", *seconds);
    return seconds.has_value();
  }
  line.kind = rest.starts_with("Validation-") ? TrainingLine::Kind::kValidation : TrainingLine::Kind::kTrain;
  if (!take(rest, "Train-") && !take(rest, "Validation-")) return false;
  if (const auto value = value_in(rest)) line.values.push_back(*value);
  return !line.values.empty();
}

// The text up to the next ", " outside of quotes and brackets.
std::string_view take_argument(std::string_view& text) {
  int depth = 0;
  char quote = 0;
  size_t end = 0;
  for (; end < text.size(); end++) {
    const char letter = text[end];
    if (quote != 0) {
      if (letter == quote) quote = 0;
    } else if (letter == '\'' || letter == '"') {
      quote = letter;
    } else if (letter == '(' || letter == '[' || letter == '{') {
      depth++;
    } else if (letter == ')' || letter == ']' || letter == '}') {
      depth--;
    } else if (letter == ',' && depth <= 0 && text.substr(end).starts_with(", ")) {
      break;
    }
  }
  const std::string_view argument = text.substr(0, end);
  text.remove_prefix(std::min(text.size(), end + 2));
  return argument;
}

bool has_word(std::string_view text, std::string_view word) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  for (auto at = text.begin();; at++) {
    at = std::search(at, text.end(), word.begin(), word.end(), same);
    if (at == text.end()) return false;
    const auto after = at + static_cast<int64_t>(word.size());
    if ((at == text.begin() || !is_letter(at[-1])) && (after == text.end() || !is_letter(*after))) return true;
  }
}

}  // namespace

// Matches the expression by hand: std::regex recurses to a depth that depends on the length of the line, which is not
// trusted.
std::optional<EpochValue> epoch_value(std::string_view line) {
  const std::optional<LastValue> last = last_value(line);
  if (!last || !last->value) return std::nullopt;
  for (size_t at = line.rfind(kEpoch); at != std::string_view::npos;
       at = at == 0 ? std::string_view::npos : line.rfind(kEpoch, at - 1)) {
    if (const std::optional<EpochValue> found = epoch_at(line, at, *last)) return found;
  }
  return std::nullopt;
}

std::optional<SpeedText> find_speed(std::string_view text) {
  constexpr std::string_view kSpeed = "Speed: ", kUnit = " samples/sec";
  const size_t speed = text.rfind(kSpeed);
  if (speed == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(speed + kSpeed.size());
  const size_t unit = rest.find(kUnit);
  if (unit == std::string_view::npos) return std::nullopt;
  return SpeedText{text.substr(0, speed), rest.substr(0, unit), rest.substr(unit + kUnit.size())};
}

std::optional<TrainingLine> read_training_line(std::string_view text) {
  TrainingLine line;
  if (!take(text, kEpoch) && !take(text, "Iter[")) return std::nullopt;
  const std::optional<int64_t> epoch = take_integer(text);
  if (!epoch || !take(text, "] ")) return std::nullopt;
  line.epoch = *epoch;
  if (take(text, "Batch")) {
    (void)take(text, " ");
    line.batch = take_batch(text);
    if (!line.batch) return std::nullopt;
    if (text.starts_with("\tSpeed: ")) {
      add_window(text, line);
      return line.speed ? std::optional(line) : std::nullopt;
    }
    (void)take(text, " ");
  }
  return add_value(text, line) ? std::optional(line) : std::nullopt;
}

std::optional<RateLine> read_rate_line(std::string_view text) {
  if (!take(text, "Update[")) return std::nullopt;
  const std::optional<int64_t> update = take_integer(text);
  if (!update || !take(text, "]: ")) return std::nullopt;
  if (!take(text, "Change learning rate to ") && !take(text, "now learning rate arrived at ")) return std::nullopt;
  const std::optional<double> rate = number_in(text.substr(0, text.find_first_of(", ")));
  if (!rate) return std::nullopt;
  return RateLine{*update, *rate};
}

std::map<std::string, std::string> read_arguments(std::string_view text) {
  constexpr size_t kArgumentsMax = 1000;
  std::map<std::string, std::string> arguments;
  const bool is_start = take(text, "start with arguments "), is_namespace = take(text, "Namespace(");
  if (!is_start && !is_namespace) return arguments;
  if (is_namespace && text.ends_with(')')) text.remove_suffix(1);
  while (!text.empty() && arguments.size() < kArgumentsMax) {
    const std::string_view argument = take_argument(text);
    const size_t equal = argument.find('=');
    if (equal == std::string_view::npos) continue;
    std::string name(argument.substr(0, equal));
    std::replace(name.begin(), name.end(), '_', '-');
    std::string_view value = argument.substr(equal + 1);
    const bool is_quoted = value.size() >= 2 && (value[0] == '\'' || value[0] == '"') && value.back() == value[0];
    if (is_quoted) value = value.substr(1, value.size() - 2);
    arguments[name] = value;
  }
  return arguments;
}

std::optional<int64_t> read_batches_per_machine(std::string_view text) {
  if (!take(text, "Resizing training data to ")) return std::nullopt;
  const std::optional<int64_t> batches = take_integer(text);
  return take(text, " batches per machine") ? batches : std::nullopt;
}

Severity severity_of(std::string_view text) {
  if (text.starts_with("start with arguments ") || text.starts_with(kEpoch)) return Severity::kNone;
  for (const std::string_view word : {"error", "traceback", "fatal", "aborted", "check failed"}) {
    if (has_word(text, word)) return Severity::kError;
  }
  if (has_word(text, "warning")) return Severity::kWarning;
  return Severity::kNone;
}

}  // namespace dtrain::observe
