// Log lines in MXNet's format, so that programs that parse MXNet's logs can parse these (docs/formats.md, "Log lines"):
//   2016-05-12 10:11:12,345 Node[0] Epoch[0] Time cost=12.346
//
// The text of a warning begins with "warning: ", that of an error with "error".
//
// Each record is one line of printable text. Control characters other than the tab, which occurs in MXNet's lines,
// become \xNN, so that quoted text from a peer can neither forge a log line nor control the terminal.
//
// There is no global Log: a Log is passed to the code that writes log lines. Copies share their sinks. Thread-safe.
#pragma once

#include <fmt/core.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/live.h"

namespace dtrain {

enum class Level { kDebug, kInfo, kWarning, kError };

class Log {
 public:
  // Writes to stderr with the prefix "Node[<node>]". `node` is a worker's rank, or "scheduler" or "server 0".
  // `terminal` is the environment's TERM, which live() needs; if it is empty, live lines are plain text.
  static Log to_stderr(std::string node, int verbosity = 0, std::string_view terminal = {});
  // For tests: writes nothing to stderr, but counts errors (error_count).
  static Log silent();

  // Appends a copy of every line to `path`, whose directory must exist. If a write fails, one message goes to stderr
  // and no more lines are written to the file.
  Result<> add_file(const std::string& path);
  // A Log with the same sinks and another node name. It is needed because a process learns its rank only when it joins.
  [[nodiscard]] Log named(std::string node) const;

  // A Log with the same sinks and node whose lines a thread of its own writes, in their order, so that a terminal or a
  // file that blocks does not block the caller. Only kQueuedLinesMax lines that are not written yet make it wait. The
  // last copy waits in its destructor until all lines are written.
  [[nodiscard]] Log queued() const;
  static constexpr size_t kQueuedLinesMax = 8192;

  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    write(Level::kInfo, format, fmt::make_format_args(args...));
  }
  template <class... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) const {
    write(Level::kWarning, format, fmt::make_format_args(args...));
  }
  template <class... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) const {
    write(Level::kError, format, fmt::make_format_args(args...));
  }
  // Logs a line only if --verbose is at least `verbosity`: 1 for connections, 2 for every message.
  template <class... Args>
  void verbose(int verbosity, fmt::format_string<Args...> format, Args&&... args) const {
    if (verbosity <= this->verbosity()) write(Level::kDebug, format, fmt::make_format_args(args...));
  }

  // From now on stderr is for people. Lines other than warnings and errors appear only if `shown` returns how to fit
  // them to the terminal, and all lines appear without time and node. Files still get all lines in full.
  void show_people(std::optional<Fit> (*shown)(std::string_view text)) const;
  // Writes to the files only: for lines of libraries, which help to investigate a failure.
  void to_files(std::string_view line) const;

  // Shows a text below all lines (base/console.h), on stderr only; each call replaces the text.
  void live(Live live) const;

  [[nodiscard]] int verbosity() const;
  [[nodiscard]] int error_count() const;  // number of kError lines so far, by all copies
  void write(Level level, std::string_view line) const;
  void flush() const;

 private:
  struct Sinks;
  void write(Level level, fmt::string_view format, fmt::format_args args) const;
  Log(std::shared_ptr<Sinks> sinks, std::string node) : sinks_(std::move(sinks)), node_(std::move(node)) {}
  std::shared_ptr<Sinks> sinks_;
  std::string node_;
};

// The node of a line that a Log has written, such as "0" or "server 1", if the line is neither a warning nor an error;
// empty for any other line.
std::string_view node_of_ordinary_line(std::string_view line);

}  // namespace dtrain
