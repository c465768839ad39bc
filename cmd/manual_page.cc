#include "manual_page.h"

#include <algorithm>
#include <cctype>

#include "job/flags/flags.h"
#include "job/flags/rows.h"
#include "job/process/exit_code.h"

namespace dtrain::cmd {

namespace {

struct Row {
  std::string term, text;
};

// Escapes the characters that troff would interpret: backslashes, hyphens, and a dot or a quote at the beginning of a
// line.
std::string escaped(std::string_view text) {
  std::string all;
  for (const char c : text) {
    const bool begins_line = all.empty() || all.back() == '\n';
    if (begins_line && (c == '.' || c == '\'')) all += "\\&";
    if (c == '\\') {
      all += "\\e";
    } else if (c == '-') {
      all += "\\-";
    } else {
      all += c;
    }
  }
  return all;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string row_text(const Row& row) {
  return fmt::format(".TP\n{}\n{}\n", row.term, escaped(row.text));
}

std::string bold(const std::string& text) {
  return "\\fB" + escaped(text) + "\\fR";
}

// The synopsis is the first line of the usage; the other lines are the description.
std::string synopsis(const CommandHelp& command) {
  return fmt::format(".br\n{}\n", escaped(command.usage.substr(0, command.usage.find('\n'))));
}

std::string flag_text(const job::FlagHelp& flag) {
  std::string term;
  for (const std::string& name : flag.names) term += (term.empty() ? "" : ", ") + bold(name);
  if (!flag.value.empty()) term += " \\fI" + escaped(flag.value) + "\\fR";
  return row_text({term, fmt::format("{} [{}]", flag.help, flag.limits)});
}

std::string flags_text(const CommandHelp& command) {
  if (command.flags.empty()) return "";
  std::string text = fmt::format(".SH FLAGS OF DTRAIN {}\n", escaped(upper(command.name())));
  std::string section;
  for (const job::FlagHelp& flag : command.flags) {
    std::string title = flag.section;
    if (title.ends_with(':')) title.pop_back();
    if (flag.section != section) text += fmt::format(".SS {}\n", escaped(title));
    section = flag.section;
    text += flag_text(flag);
  }
  return text;
}

// The text about the topics that may follow --help.
std::string subjects_text() {
  std::string text =
      ".SH HELP\n"
      "dtrain \\-\\-help shows the commands and flags that most people need, dtrain \\-\\-help all shows all of them,\n"
      "dtrain help COMMAND shows the arguments of a sub-command, and dtrain \\-\\-help SUBJECT shows the flags of "
      "training\n"
      "that belong to one of these subjects:\n";
  for (const job::Section& section : job::sections()) {
    text += row_text({bold(section.subject), section.heading.substr(0, section.heading.size() - 1)});
  }
  return text;
}

std::string environment_text(const std::vector<CommandHelp>& commands) {
  std::string text = ".SH ENVIRONMENT\n";
  for (const CommandHelp& command : commands) {
    for (const job::FlagHelp& flag : command.flags) {
      if (flag.environment.empty()) continue;
      text += row_text({bold(flag.environment), fmt::format("value of {}, if the flag is not given", flag.names[0])});
    }
  }
  return text + row_text({bold("DTRAIN_TOKEN"), "token of the job, if --token-file is not given"});
}

std::string exit_text() {
  const std::vector<std::pair<int, std::string>> codes = {
      {job::kExitOk, "success"},
      {job::kExitInternal, "internal error, such as a loss that is not finite"},
      {job::kExitUsage, "wrong flags, or flags that differ from those of the job"},
      {job::kExitStartup, "the job could not start"},
      {job::kExitSchedulerLost, "the scheduler was lost"},
      {job::kExitPeerLost, "a worker or server was lost"},
      {job::kExitDenied, "wrong token, or another build of dtrain"},
      {job::kExitData, "missing or damaged data"},
      {job::kExitDevice, "no usable device, or not enough of its memory"},
      {job::kExitPreempted, "stopped on request, after a checkpoint"}};
  std::string text = ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : codes) text += row_text({bold(std::to_string(code)), meaning});
  return text;
}

}  // namespace

std::string manual_page(const std::vector<CommandHelp>& commands, std::string_view version) {
  std::string text = fmt::format(".TH DTRAIN 1 \"\" \"dtrain {}\" \"User Commands\"\n", escaped(version));
  text += ".SH NAME\ndtrain \\- train image classifiers on one host or on a cluster\n.SH SYNOPSIS\n.nh\n.ad l\n";
  for (const CommandHelp& command : commands) text += synopsis(command);
  text +=
      ".SH DESCRIPTION\n"
      "dtrain trains image classifiers, in one process or as a job of a scheduler, parameter servers and workers.\n"
      "The value of a flag comes from the first of these sources that sets it: the command line, the run of\n"
      ".BR \\-\\-resume ,\n"
      "the file of\n"
      ".BR \\-\\-config ,\n"
      ".BR \\-\\-preset ,\n"
      "environment variables, the default.\n"
      "A flag shown without a value is a switch: 1 or no value turns it on, 0 turns it off; true, yes and on mean 1,\n"
      "and false, no and off mean 0. Words after \\-\\- are never flags.\n"
      "Brackets show the range of a number and the default.\n"
      "Without arguments, dtrain prints examples and ends with exit status 2, because nothing was done; if variables "
      "of\n"
      "a tracker such as DMLC_ROLE make it a process of a job, it runs this process.\n"
      ".SH COMMANDS\n";
  for (const CommandHelp& command : commands) text += row_text({bold("dtrain " + command.name()), command.summary});
  for (const CommandHelp& command : commands) text += flags_text(command);
  return text + subjects_text() + environment_text(commands) + exit_text();
}

}  // namespace dtrain::cmd
