#include "base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/dist_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <mutex>

#include "base/console.h"

namespace dtrain {
namespace {

// stderr, with the live line kept below the others.
class ConsoleSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void live(std::string_view text) {
    const std::lock_guard lock(mutex_);
    console_.live(text, Console::Time::clock::now());
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    console_.line({line.data(), line.size() - 1});  // without its newline
  }
  void flush_() override {}

  Console console_ = Console::to_stderr();
};

// "," before the milliseconds, as Python's logging writes it.
constexpr const char* kPattern = "%Y-%m-%d %H:%M:%S,%e %v";

}  // namespace

struct Log::Sinks {
  std::shared_ptr<spdlog::sinks::dist_sink_mt> all = std::make_shared<spdlog::sinks::dist_sink_mt>();
  std::shared_ptr<spdlog::logger> logger = std::make_shared<spdlog::logger>("dtrain", all);
  std::atomic<int> errors = 0;
  std::shared_ptr<ConsoleSink> console;  // nullptr: silent
  int verbosity = 0;
};

Log Log::to_stderr(std::string node, int verbosity) {
  auto sinks = std::make_shared<Sinks>();
  sinks->console = std::make_shared<ConsoleSink>();
  sinks->all->add_sink(sinks->console);
  sinks->logger->set_level(spdlog::level::debug);
  sinks->logger->set_pattern(kPattern);
  sinks->logger->flush_on(spdlog::level::debug);
  sinks->verbosity = verbosity;
  return {std::move(sinks), std::move(node)};
}

Log Log::silent() {
  return {std::make_shared<Sinks>(), "0"};
}

Result<> Log::add_file(const std::string& path) {
  try {
    sinks_->all->add_sink(std::make_shared<spdlog::sinks::basic_file_sink_mt>(path));
  } catch (const spdlog::spdlog_ex& e) {
    return fail(Code::kUsage, "cannot write the log file '{}': {}", path, e.what());
  }
  sinks_->logger->set_pattern(kPattern);
  return {};
}

Log Log::named(std::string node) const {
  return {sinks_, std::move(node)};
}

void Log::live(std::string_view text) const {
  if (sinks_->console != nullptr) sinks_->console->live(text);
}

int Log::verbosity() const {
  return sinks_->verbosity;
}

int Log::error_count() const {
  return sinks_->errors.load();
}

void Log::write(Level level, std::string_view line) const {
  static constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                          spdlog::level::warn, spdlog::level::err};
  if (level == Level::kError) sinks_->errors++;
  sinks_->logger->log(kLevels[static_cast<int>(level)], "Node[{}] {}", node_, line);
}

void Log::flush() const {
  sinks_->logger->flush();
}

}  // namespace dtrain
