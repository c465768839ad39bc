#include "observe/report/class_section.h"

#include <algorithm>
#include <set>

#include "base/printable.h"
#include "base/words.h"
#include "observe/charts/svg.h"
#include "observe/report/markup.h"

namespace dtrain::observe {
namespace {

using telemetry::ClassAccuracy;
using telemetry::ClassCounts;
using telemetry::ClassResults;
using telemetry::Confusion;
using telemetry::JudgedImage;
using telemetry::kClassesShown;
using telemetry::kConfusionsShown;

constexpr size_t kMatrixClasses = 20;

// The name of the class, or its number if names are not known.
std::string class_name(const ClassResults& results, int64_t label) {
  constexpr size_t kNameBytesMax = 40;
  const auto at = static_cast<size_t>(label);
  if (at >= results.class_names.size() || results.class_names[at].empty()) return fmt::format("{}", label);
  return markup_text(printable(results.class_names[at], kNameBytesMax));
}

// `kind`: a CSS class of the style sheet.
std::string table_head(std::string_view kind, std::string_view caption, const std::vector<std::string>& columns) {
  std::string html =
      scrolled(caption) + fmt::format("<table class=\"{}\"><caption>{}</caption><thead><tr>", kind, caption);
  for (const std::string& column : columns) {
    html += column.empty() ? "<td></td>" : fmt::format("<th scope=\"col\">{}</th>", column);
  }
  return html + "</tr></thead><tbody>\n";
}

constexpr const char* kTableEnd = "</tbody></table></div>\n";

std::string introduction(const ClassResults& results) {
  int64_t right = 0;
  for (const ClassAccuracy& one : results.counts.accuracies()) right += one.right;
  const int64_t images = results.counts.images();
  std::string html = fmt::format(
      "<p>The newest validation, in epoch {}, after update {}: {} of {} images were classified correctly "
      "({:.4f}).{}</p>\n",
      results.epoch + 1, with_thousands(static_cast<int64_t>(results.step)), with_thousands(right),
      with_thousands(images), static_cast<double>(right) / static_cast<double>(images),
      results.result.empty() ? ""
                             : fmt::format(" These figures are for the network's output '{}'.", cell(results.result)));
  if (images >= results.images) return html;
  return html +
         fmt::format(
             "<p>These are not all of the {} images that were validated: each worker writes about its own images, into "
             "the run directory of its host, and images whose probabilities are not numbers are left out.</p>\n",
             with_thousands(results.images));
}

std::string accuracy_table(const ClassResults& results) {
  const std::vector<ClassAccuracy> classes = results.counts.accuracies();
  std::string html =
      table_head("classes", "Accuracy by class, the worst first", {"class", "accuracy", "correct", "images"});
  for (const ClassAccuracy& one : std::span(classes).first(std::min(classes.size(), kClassesShown))) {
    html += fmt::format("<tr><th scope=\"row\">{}</th><td>{:.4f}</td><td>{}</td><td>{}</td></tr>\n",
                        class_name(results, one.label), one.accuracy(), with_thousands(one.right),
                        with_thousands(one.images));
  }
  html += kTableEnd;
  if (classes.size() <= kClassesShown) return html;
  return html + fmt::format("<p>And {} more classes, with an accuracy of {:.4f} or higher.</p>\n",
                            with_thousands(static_cast<int64_t>(classes.size() - kClassesShown)),
                            classes[kClassesShown].accuracy());
}

std::string confusion_list(const ClassResults& results, const std::vector<Confusion>& confusions) {
  std::string html = "<p>The most frequent confusions:</p>\n<ul>\n";
  for (const Confusion& one : std::span(confusions).first(std::min(confusions.size(), kConfusionsShown))) {
    html += fmt::format("<li>{} classified as {}: {} of {}</li>\n", class_name(results, one.label),
                        class_name(results, one.prediction), with_thousands(one.images),
                        with_thousands(one.images_of_label));
  }
  return html + "</ul>\n";
}

std::set<int64_t> all_classes(const ClassCounts& counts) {
  std::set<int64_t> classes;
  for (const auto& [pair, images] : counts.counts()) {
    classes.insert(pair.first);
    classes.insert(pair.second);
  }
  return classes;
}

// The classes of the most frequent confusions, as many as fit into a matrix.
std::set<int64_t> most_confused(const std::vector<Confusion>& confusions) {
  std::set<int64_t> classes;
  for (const Confusion& one : confusions) {
    std::set<int64_t> both = classes;
    both.insert({one.label, one.prediction});
    if (both.size() > kMatrixClasses) break;
    classes = std::move(both);
  }
  return classes;
}

// A cell of the matrix. The larger the share of the label's images in a wrong cell, the darker the cell.
std::string matrix_cell(int64_t images, int64_t images_of_label, bool is_right) {
  if (images == 0) return "<td></td>";
  if (is_right) return fmt::format("<td class=\"right\">{}</td>", images);
  const double share = static_cast<double>(images) / static_cast<double>(images_of_label);
  return fmt::format("<td class=\"wrong\" style=\"background:rgb(213 94 0/{:.2f})\">{}</td>",
                     std::min(0.7, 0.06 + 1.4 * share), images);
}

std::string matrix_row(const ClassResults& results, const std::set<int64_t>& classes, int64_t label, bool has_others) {
  const auto& counts = results.counts.counts();
  int64_t all = 0, shown = 0;
  for (auto at = counts.lower_bound({label, 0}); at != counts.end() && at->first.first == label; at++)
    all += at->second;
  std::string html = fmt::format("<tr><th scope=\"row\">{}</th>", class_name(results, label));
  for (const int64_t prediction : classes) {
    const auto found = counts.find({label, prediction});
    const int64_t images = found == counts.end() ? 0 : found->second;
    html += matrix_cell(images, all, prediction == label);
    shown += images;
  }
  return html + (has_others ? matrix_cell(all - shown, all, false) : "") + "</tr>\n";
}

std::string matrix(const ClassResults& results, const std::vector<Confusion>& confusions) {
  const std::set<int64_t> all = all_classes(results.counts);
  const bool has_others = all.size() > kMatrixClasses;
  const std::set<int64_t> classes = has_others ? most_confused(confusions) : all;
  std::vector<std::string> columns = {""};
  for (const int64_t prediction : classes) columns.push_back(class_name(results, prediction));
  if (has_others) columns.emplace_back("others");
  std::string html = table_head(
      "matrix",
      has_others ? fmt::format("Confusion matrix of only the {} most confused of {} classes: a row for each label, a "
                               "column for each prediction",
                               classes.size(), with_thousands(static_cast<int64_t>(all.size())))
                 : "Confusion matrix: a row for each label, a column for each prediction",
      columns);
  for (const int64_t label : classes) html += matrix_row(results, classes, label, has_others);
  return html + kTableEnd;
}

std::string image_figure(const ClassResults& results, const JudgedImage& image) {
  const std::string shown = image.image.empty()
                                ? ""
                                : fmt::format("<img alt=\"an image of the class {}\" src=\"data:image/png;base64,{}\">",
                                              class_name(results, image.label), image.image);
  const char* const verdict = image.label == image.prediction ? "rightly taken" : "taken";
  return fmt::format(
      "<figure>{}<figcaption>{}, {} for {} with probability {:.4f}; loss {:.2f}<br><span class=\"file\">{}</span>"
      "</figcaption></figure>\n",
      shown, class_name(results, image.label), verdict, class_name(results, image.prediction), image.probability,
      image.loss, cell(image.name));
}

std::string worst_images(const ClassResults& results) {
  if (results.worst.empty()) return {};
  std::string html = fmt::format(
      "<p>The {} images with the highest loss. If the data contain wrong labels, such images are likely to be among "
      "them.</p>\n"
      "<div class=\"worst\">\n",
      results.worst.size());
  for (const JudgedImage& image : results.worst) html += image_figure(results, image);
  return html + "</div>\n";
}

}  // namespace

std::string class_section(std::span<const Run> runs) {
  std::string html;
  for (const Run& run : runs) {
    if (!run.validation || run.validation->counts.images() == 0) continue;
    const ClassResults& results = *run.validation;
    const std::vector<Confusion> confusions = results.counts.confusions();
    html += heading(runs, run) + introduction(results) + accuracy_table(results);
    if (!confusions.empty()) html += confusion_list(results, confusions) + matrix(results, confusions);
    html += worst_images(results);
  }
  return html;
}

}  // namespace dtrain::observe
