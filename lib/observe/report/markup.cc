#include "observe/report/markup.h"

#include "base/printable.h"
#include "observe/charts/svg.h"

namespace dtrain::observe {

std::string cell(std::string_view text) {
  return text.empty() ? kNone : markup_text(printable(text));
}

std::string scrolled(std::string_view name) {
  return fmt::format("<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">", name);
}

std::string heading(std::span<const Run> runs, const Run& run) {
  return runs.size() > 1 ? fmt::format("<h3>{}</h3>\n", cell(run.name)) : "";
}

}  // namespace dtrain::observe
