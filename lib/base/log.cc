#include "base/log.h"

#include <fcntl.h>
#include <spdlog/async.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/dist_sink.h>
#include <spdlog/spdlog.h>

// Included after base_sink.h, because without the compiled library that header includes this file itself.
#include <spdlog/sinks/base_sink-inl.h>  // the compiled library has base_sink only for the standard mutex

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>

#include "base/console.h"
#include "base/file.h"
#include "base/log_prefix.h"
#include "base/mutex.h"
#include "base/printable.h"

namespace dtrain {
namespace {

constexpr std::string_view kAfterNode = "] ";  // what follows the node in a line "Node[0] TEXT"

// Writes to stderr and keeps the live line below all other lines.
class ConsoleSink final : public spdlog::sinks::base_sink<Mutex> {
 public:
  explicit ConsoleSink(std::string_view terminal) : console_(Console::to_stderr(terminal)) {}
  void live(Live live) {
    const MutexLock lock(mutex_);
    console_.live(std::move(live), Console::Time::clock::now());
  }
  void show_people(std::optional<Fit> (*shown)(std::string_view text)) {
    const MutexLock lock(mutex_);
    shown_ = shown;
  }
  void plain(std::string_view line) {
    const MutexLock lock(mutex_);
    console_.line(line);
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override DT_REQUIRES(mutex_) {
    if (shown_ != nullptr) return to_people(message);
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    console_.line({line.data(), line.size() - 1});  // passes the line on without its newline
  }
  void to_people(const spdlog::details::log_msg& message) DT_REQUIRES(mutex_) {
    const std::string_view line(message.payload.data(), message.payload.size());
    const std::string_view text = line.substr(line.find(kAfterNode) + kAfterNode.size());
    const std::optional<Fit> fit = message.level == spdlog::level::info ? shown_(text) : Fit::kWords;
    if (fit) console_.line(text, *fit);
  }
  void flush_() override {}

  Console console_ DT_GUARDED_BY(mutex_);
  // Decides which lines appear and how; nullptr: all lines appear, unchanged.
  std::optional<Fit> (*shown_)(std::string_view text) DT_GUARDED_BY(mutex_) = nullptr;
};

// Appends lines to a file. When a write fails, it calls `failed` once with errno and writes no more.
class FileSink final : public spdlog::sinks::base_sink<Mutex> {
 public:
  FileSink(int fd, std::function<void(int error)> failed) : fd_(fd), failed_(std::move(failed)) {}
  ~FileSink() override { ::close(fd_); }
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;

 private:
  void sink_it_(const spdlog::details::log_msg& message) override DT_REQUIRES(mutex_) {
    if (!failed_) return;
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    for (size_t done = 0; done < line.size();) {
      const ssize_t put = ::write(fd_, line.data() + done, line.size() - done);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return std::exchange(failed_, nullptr)(errno);
      done += static_cast<size_t>(put);
    }
  }
  void flush_() override {}

  int fd_;
  std::function<void(int error)> failed_ DT_GUARDED_BY(mutex_);
};

// True if a line can be written to the file. A file on a full disk, and /dev/full, can be opened like any other file,
// so opening does not tell.
bool has_room(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return false;
  if (S_ISCHR(status.st_mode)) return ::write(fd, "\n", 1) == 1;
  return ::fallocate(fd, FALLOC_FL_KEEP_SIZE, status.st_size, 1) == 0 || errno == EOPNOTSUPP || errno == ESPIPE ||
         errno == ENODEV;
}

// The maximum length of a line. If a line is longer, because it quotes text from a peer or a file, its middle is left
// out.
constexpr size_t kRecordBytesMax = 64 << 10;

constexpr std::string_view kWarning = "warning: ", kError = "error";

// The word to put before a line. It is empty for errors of dtrain (base/error.h), which already begin with it.
std::string_view word_before(Level level, std::string_view line) {
  if (level == Level::kWarning) return kWarning;
  return level == Level::kError && !line.starts_with(kError) ? "error: " : "";
}

// The comma before the milliseconds is as in Python's logging.
constexpr const char* kPattern = "%Y-%m-%d %H:%M:%S,%e %v";

}  // namespace

struct Log::Sinks {
  std::shared_ptr<spdlog::sinks::dist_sink_mt> files = std::make_shared<spdlog::sinks::dist_sink_mt>();
  std::shared_ptr<spdlog::sinks::dist_sink_mt> all =
      std::make_shared<spdlog::sinks::dist_sink_mt>(std::vector<spdlog::sink_ptr>{files});
  std::shared_ptr<spdlog::logger> logger = std::make_shared<spdlog::logger>("dtrain", all);
  std::shared_ptr<spdlog::logger> file_logger = std::make_shared<spdlog::logger>("files", files);
  std::shared_ptr<std::atomic<int>> errors = std::make_shared<std::atomic<int>>(0);
  std::shared_ptr<ConsoleSink> console;  // the sink for stderr; nullptr if the Log is silent
  int verbosity = 0;
  std::shared_ptr<spdlog::details::thread_pool> writer;  // of queued(): writes the lines of `logger`
};

Log Log::to_stderr(std::string node, int verbosity, std::string_view terminal) {
  auto sinks = std::make_shared<Sinks>();
  sinks->console = std::make_shared<ConsoleSink>(terminal);
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
  DT_TRY(UniqueFd file, open_for_lines(path, O_APPEND), "opening the log file");
  if (!has_room(file.get())) {
    return fail(Code::kUsage, "cannot write the log file '{}': {}", path, std::strerror(errno));
  }
  // This must not use the logger, because the logger is locked while it calls this function.
  const auto failed = [path, console = sinks_->console](int error) {
    if (console == nullptr) return;
    console->plain(fmt::format("cannot write the log file '{}': {}; the run continues without it", printable(path),
                               std::strerror(error)));
  };
  sinks_->files->add_sink(std::make_shared<FileSink>(file.release(), failed));
  sinks_->logger->set_pattern(kPattern);
  return {};
}

Log Log::named(std::string node) const {
  return {sinks_, std::move(node)};
}

Log Log::queued() const {
  auto sinks = std::make_shared<Sinks>(*sinks_);
  sinks->writer = std::make_shared<spdlog::details::thread_pool>(kQueuedLinesMax, 1);
  sinks->logger = std::make_shared<spdlog::async_logger>("dtrain", sinks->all, sinks->writer);
  sinks->logger->set_level(spdlog::level::debug);
  return {std::move(sinks), node_};
}

void Log::show_people(std::optional<Fit> (*shown)(std::string_view text)) const {
  if (sinks_->console != nullptr) sinks_->console->show_people(shown);
}

void Log::live(Live live) const {
  if (sinks_->console != nullptr) sinks_->console->live(std::move(live));
}

int Log::verbosity() const {
  return sinks_->verbosity;
}

int Log::error_count() const {
  return sinks_->errors->load();
}

void Log::write(Level level, std::string_view line) const {
  static constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                          spdlog::level::warn, spdlog::level::err};
  if (level == Level::kError) ++*sinks_->errors;
  sinks_->logger->log(kLevels[static_cast<int>(level)], "Node[{}{}{}{}", node_, kAfterNode, word_before(level, line),
                      printable(line, kRecordBytesMax, "\t"));
}

void Log::to_files(std::string_view line) const {
  sinks_->file_logger->info("Node[{}] {}", node_, printable(line, kRecordBytesMax, "\t"));
}

void Log::write(Level level, fmt::string_view format, fmt::format_args args) const {
  write(level, fmt::vformat(format, args));
}

void Log::flush() const {
  sinks_->logger->flush();
}

std::string_view node_of_ordinary_line(std::string_view line) {
  const SplitLine split = split_log_line(line);
  const bool is_ours = split.time && split.begin == 0;
  return is_ours && !split.text.starts_with(kWarning) && !split.text.starts_with(kError) ? split.node : "";
}

}  // namespace dtrain
