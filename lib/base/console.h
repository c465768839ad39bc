// The console output of a run: ordinary lines, and one live line below them.
//
// On a terminal, the live line stays at the bottom, cut to the window's current width. It is erased before other output
// and redrawn after it. Elsewhere, it is printed as plain text, at most every 10 s. No colors are used. Not
// thread-safe.
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

  // `columns` returns the terminal's current width; 0 if there is no terminal, or if it cannot redraw a line.
  Console(Write write, Columns columns) : write_(std::move(write)), columns_(std::move(columns)) {}
  ~Console() { finish(); }
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // Writes to stderr. `terminal` is the environment's TERM; if it is "dumb" or empty, stderr is not treated as a
  // terminal.
  static Console to_stderr(std::string_view terminal);

  void line(std::string_view text);            // without the newline
  void live(std::string_view text, Time now);  // replaces the live line; empty: removes it
  void resized();                              // redraws the live line after the window's width has changed
  void finish();                               // leaves the last live line in full, as an ordinary line

 private:
  [[nodiscard]] std::string wipe() const;
  void draw();

  Write write_;
  Columns columns_;
  std::string live_;
  size_t drawn_ = 0;             // characters of the live line that are on the screen
  bool unprinted_ = false;       // the live line has changed since it was last printed as plain text
  std::optional<Time> printed_;  // when it was last printed as plain text
};

}  // namespace dtrain
