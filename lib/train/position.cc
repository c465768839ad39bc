#include "train/position.h"

#include <charconv>

namespace dtrain::train {
namespace {

// Removes `name`, a blank, a number and a blank from the beginning of `text`, and stores the number.
template <class Number>
bool take(std::string_view& text, std::string_view name, Number& number) {
  if (!text.starts_with(name) || !text.substr(name.size()).starts_with(' ')) return false;
  text.remove_prefix(name.size() + 1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < Number{}) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (text.starts_with(' ') && text.size() > 1) text.remove_prefix(1);
  return true;
}

}  // namespace

std::string to_text(const Position& position) {
  return fmt::format("epoch {} step {} own {} updates {} samples {}", position.epoch, position.step, position.own_steps,
                     position.updates, position.samples);
}

Result<Position> parse_position(std::string_view text) {
  Position position;
  std::string_view left = text;
  const bool is_position = take(left, "epoch", position.epoch) && take(left, "step", position.step) &&
                           take(left, "own", position.own_steps) && take(left, "updates", position.updates) &&
                           take(left, "samples", position.samples) && left.empty();
  if (!is_position) return fail(Code::kData, "'{}' is not a position of a run", text);
  return position;
}

}  // namespace dtrain::train
