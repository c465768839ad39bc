// The console output of a run: ordinary lines, and below them a block of live lines.
//
// On a terminal, the block stays at the bottom and follows the window's size: a text that is too wide is broken between
// its parts, other lines are truncated, and lines for which there is no room are replaced by their number. The block is
// erased before other output and redrawn after it. If there is no terminal, its text is printed as a plain line, at
// most every 10 s. Apart from names, everything that is drawn is ASCII without colors. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/live.h"

namespace dtrain {

struct WindowSize {
  int columns = 0;  // width of the window; 0: there is no terminal, or it cannot redraw lines
  int rows = 0;
};

// The lines of the block in a window of this size, each narrower than the window. They take at most half of the
// window's rows, but at least one.
std::vector<std::string> lines_in_window(const Live& live, WindowSize window);

// The text, split into lines that are no wider than the window. A word or a quoted text that is too wide stays whole.
std::vector<std::string> fitted(std::string_view text, Fit fit, WindowSize window);

class Console {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Write = std::function<void(std::string_view bytes)>;
  using Window = std::function<WindowSize()>;

  // `window` returns the terminal's current size.
  Console(Write write, Window window) : write_(std::move(write)), window_(std::move(window)) {}
  ~Console() { finish(); }
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // Writes to stderr. `terminal` is the environment's TERM; if it is "dumb" or empty, stderr is not treated as a
  // terminal.
  static Console to_stderr(std::string_view terminal);
  // Whether stderr is a terminal of any kind.
  static bool is_terminal();

  void line(std::string_view text, Fit fit = Fit::kAsIs);  // `text` has no newline; it is fitted only on a terminal
  void live(Live live, Time now);                          // shows `live` as the block; an empty text removes it
  void resized();                                          // redraws the block after the window's size has changed
  void finish();                                           // leaves the last live text on the screen, as ordinary lines

 private:
  [[nodiscard]] std::string wipe() const;
  void draw();

  Write write_;
  Window window_;
  Live live_;
  std::vector<size_t> drawn_;    // the number of columns of each line of the block on the screen
  bool unprinted_ = false;       // whether the live text has changed since it was last printed as plain text
  std::optional<Time> printed_;  // when the live text was last printed as plain text
  std::string printed_text_;     // the plain text that was printed at `printed_`
};

}  // namespace dtrain
