// What a user sees of a run: lines, and one live line below them.
//
// On a terminal the live line stays at the bottom, as wide as the window is now: it is wiped before other output and
// drawn again after it. Anywhere else it is printed as plain text, at most every 10 s. No colours are used. One thread.
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
  using Columns = std::function<int()>;

  // `columns` gives the terminal's width at each call; 0: there is no terminal, or it cannot redraw a line.
  Console(Write write, Columns columns) : write_(std::move(write)), columns_(std::move(columns)) {}
  ~Console() { finish(); }
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // Writes to stderr. `terminal` is the environment's TERM: where that is "dumb" or empty, a terminal counts as none.
  static Console to_stderr(std::string_view terminal);

  void line(std::string_view text);            // without the newline
  void live(std::string_view text, Time now);  // replaces the live line
  void resized();                              // draws the live line anew: the window's width has changed
  void finish();                               // leaves the last live line as a line of its own, in full

 private:
  [[nodiscard]] std::string wipe() const;
  void draw();

  Write write_;
  Columns columns_;
  std::string live_;
  size_t drawn_ = 0;             // characters of the live line that are on the screen
  bool unprinted_ = false;       // the live line has changed since it was last printed as plain text
  std::optional<Time> printed_;  // when that was
};

}  // namespace dtrain
