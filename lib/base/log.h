// Log lines in MXNet's format, so that programs that parse MXNet's logs can parse these (docs/formats.md, "Log lines"):
//   2016-05-12 10:11:12,345 Node[0] Epoch[0] Time cost=12.346
//
// A record is one line of printable text: control characters in it become \xNN, so that a peer whose words are quoted
// can neither forge a line nor reach the terminal.
//
// A Log is given to whoever writes lines; there is no global one. Copies share their sinks. Any thread may call it.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace dtrain {

enum class Level { kDebug, kInfo, kWarning, kError };

class Log {
 public:
  // Lines go to stderr with the prefix "Node[<node>]"; node is a worker's rank, or "scheduler", "server 0". `terminal`
  // is the environment's TERM, for live(); without it, live lines are plain text.
  static Log to_stderr(std::string node, int verbosity = 0, std::string_view terminal = {});
  // Discards everything below kError and counts the rest: what tests use. An unexpected error fails a test.
  static Log silent();

  // Appends a copy of every line to `path`, in a directory that exists, until a write fails, which stderr hears of
  // once.
  Result<> add_file(const std::string& path);
  // The same sinks under another node name: a rank is known only after the join.
  [[nodiscard]] Log named(std::string node) const;

  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    write(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) const {
    write(Level::kWarning, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) const {
    write(Level::kError, fmt::format(format, std::forward<Args>(args)...));
  }
  // Only with --verbose of at least `verbosity`: 1 connections, 2 every message.
  template <class... Args>
  void verbose(int verbosity, fmt::format_string<Args...> format, Args&&... args) const {
    if (verbosity <= this->verbosity()) write(Level::kDebug, fmt::format(format, std::forward<Args>(args)...));
  }

  // Shows `text` as the live line below all others (base/console.h), on stderr only; each call replaces it.
  void live(std::string_view text) const;

  [[nodiscard]] int verbosity() const;
  [[nodiscard]] int error_count() const;  // lines of kError so far, over all copies
  void write(Level level, std::string_view line) const;
  void flush() const;

 private:
  struct Sinks;
  Log(std::shared_ptr<Sinks> sinks, std::string node) : sinks_(std::move(sinks)), node_(std::move(node)) {}
  std::shared_ptr<Sinks> sinks_;
  std::string node_;
};

}  // namespace dtrain
