// What a user sees of a run: lines, and one live line below them.
//
// On a terminal the live line stays at the bottom: it is wiped before other output and drawn again after it. Anywhere
// else it is printed as plain text, at most every 10 s. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace dtrain {

class Console {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Write = std::function<void(std::string_view bytes)>;

  // `columns` of the terminal, 0 if there is none.
  Console(Write write, int columns) : write_(std::move(write)), columns_(columns) {}
  ~Console() { finish(); }
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // Writes to stderr, which is a terminal or not.
  static Console to_stderr();

  void line(std::string_view text);            // without the newline
  void live(std::string_view text, Time now);  // replaces the live line
  void finish();                               // leaves the last live line where it is, as a line of its own

 private:
  void draw() const;

  Write write_;
  int columns_;
  std::string live_;
  std::optional<Time> printed_;  // when the live line was last printed as plain text
};

}  // namespace dtrain
