#include "observe/charts/svg.h"

#include <fmt/core.h>

#include <cmath>

#include "base/json.h"
#include "base/utf8.h"

namespace dtrain::observe {
namespace {

std::string class_of(char use, Ink ink) {
  switch (ink.kind) {
    case Ink::Kind::kText: return fmt::format("{}t", use);
    case Ink::Kind::kMuted: return fmt::format("{}m", use);
    case Ink::Kind::kGrid: return fmt::format("{}g", use);
    case Ink::Kind::kPaper: return fmt::format("{}p", use);
    case Ink::Kind::kSeries: return fmt::format("{}{}", use, ink.number % kSeriesColors);
  }
  return {};
}

// A length with at most one decimal, because a tenth of a pixel cannot be seen.
std::string length(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

std::string closed(const std::string& element, const char* name, std::string_view hint) {
  if (hint.empty()) return element + "/>\n";
  return fmt::format("{}><title>{}</title></{}>\n", element, markup_text(hint), name);
}

// The width of a character in units of the font size.
double width_of(char letter) {
  constexpr std::string_view kNarrow = "iljI.,:;'|!()[]/ ft-r", kWide = "mwMW%@";
  if (continues_character(letter)) return 0;  // its first byte has been counted
  if (kNarrow.find(letter) != std::string_view::npos) return 0.36;
  if (kWide.find(letter) != std::string_view::npos) return 0.95;
  return letter >= 'A' && letter <= 'Z' ? 0.7 : 0.62;
}

}  // namespace

std::string markup_text(std::string_view text) {
  // The JSON writer replaces bytes that are not UTF-8. Its text is parsed back, because its escapes differ from those
  // needed here.
  const std::string valid = nlohmann::json::parse(json_text(nlohmann::json(std::string(text)))).get<std::string>();
  std::string out;
  for (const char letter : valid) {
    switch (letter) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f ? ' ' : letter;
    }
  }
  return out;
}

void SvgCanvas::line(std::span<const Point> points, const Pen& pen) {
  std::string places;
  for (const Point& point : points) places += (places.empty() ? "" : " ") + length(point.x) + "," + length(point.y);
  std::string dash;
  if (pen.dash != 0) {
    const auto& pattern = kDashPatterns[static_cast<size_t>(pen.dash) % kDashes];
    dash = fmt::format(" stroke-dasharray=\"{} {} {} {}\"", pattern[0], pattern[1], pattern[2], pattern[3]);
  }
  body_ += fmt::format("<polyline class=\"{}\" stroke-width=\"{}\"{} points=\"{}\"/>\n", class_of('l', pen.ink),
                       length(pen.width), dash, places);
}

void SvgCanvas::mark(Point center, Ink ink, int shape, std::string_view hint) {
  const std::string x = length(center.x), y = length(center.y), style = class_of('f', ink);
  switch (shape % 3) {
    case 0:
      body_ += closed(fmt::format("<circle class=\"{}\" cx=\"{}\" cy=\"{}\" r=\"3\"", style, x, y), "circle", hint);
      return;
    case 1:
      body_ += closed(fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"5.6\" height=\"5.6\"", style,
                                  length(center.x - 2.8), length(center.y - 2.8)),
                      "rect", hint);
      return;
    default:
      body_ += closed(fmt::format("<path class=\"{}\" d=\"M{} {}l3.8 6.4h-7.6z\"", style, x, length(center.y - 3.8)),
                      "path", hint);
  }
}

void SvgCanvas::box(const Box& box, Ink ink, std::string_view hint) {
  body_ += closed(fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", class_of('f', ink),
                              length(box.x), length(box.y), length(box.width), length(box.height)),
                  "rect", hint);
}

void SvgCanvas::text(Point at, std::string_view text, const TextStyle& style) {
  constexpr const char* kAnchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
  body_ +=
      fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\" font-size=\"{}\"{}{}>{}</text>\n", class_of('f', style.ink),
                  length(at.x), length(at.y), length(style.size), kAnchors[static_cast<size_t>(style.anchor)],
                  style.bold ? " font-weight=\"600\"" : "", markup_text(text));
}

double SvgCanvas::text_width(std::string_view text, const TextStyle& style) {
  double width = 0;
  for (const char letter : text) width += width_of(letter);
  return width * style.size * (style.bold ? 1.08 : 1);
}

std::string SvgCanvas::finish(const Frame& frame) const {
  std::string text = fmt::format(
      "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" {2}role=\"img\" "
      "aria-label=\"{3}\">\n",
      length(frame.width), length(frame.height),
      frame.has_style ? fmt::format("width=\"{}\" height=\"{}\" ", length(frame.width), length(frame.height)) : "",
      markup_text(frame.title + ". " + frame.description));
  if (frame.has_style) {
    text += fmt::format("<title>{}</title>\n<desc>{}</desc>\n<style>\n{}</style>\n", markup_text(frame.title),
                        markup_text(frame.description), file_style());
    text += fmt::format("<rect class=\"fp\" width=\"{}\" height=\"{}\"/>\n", length(frame.width), length(frame.height));
  }
  return text + body_ + "</svg>\n";
}

}  // namespace dtrain::observe
