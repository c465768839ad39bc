#include "tools/im2rec.h"

#include "tool.h"

namespace dtrain::cmd {

namespace {

using Options = tools::Im2recOptions;

// --no-shuffle sets the opposite of Im2recOptions::shuffle.
job::Binding<Options> no_shuffle() {
  job::Binding<Options> binding = DT_FIELD(Options, shuffle);
  binding.set = [](Options& options, std::string_view text) -> Result<> {
    bool off = false;
    DT_TRY_VOID(job::parse_value(text, off));
    options.shuffle = !off;
    return {};
  };
  binding.get = [](const Options& options) { return job::format_value(!options.shuffle); };
  return binding;
}

job::FlagTable<Options> flags() {
  return {{
              {.name = "list", .help = "write only the list, PREFIX.lst", .bind = DT_FIELD(Options, list)},
              {.name = "recursive",
               .help = "also take the images in the directories below ROOT, one class for each directory",
               .bind = DT_FIELD(Options, recursive)},
              {.name = "no-shuffle", .help = "keep the images in the order of their names", .bind = no_shuffle()},
              {.name = "exts",
               .value = ".A,.B",
               .help = "file name extensions of the images to take",
               .bind = DT_FIELD(Options, extensions)},
              {.name = "num-thread",
               .aliases = {"--num_thread", "--threads"},
               .value = "N",
               .help = "number of threads that encode images",
               .bind = DT_FIELD(Options, pack.threads),
               .min = 1,
               .max = job::kThreadsMax},
              {.name = "resize",
               .value = "N",
               .help = "resize images to a shorter edge of N pixels; 0 keeps the size",
               .bind = DT_FIELD(Options, pack.resize),
               .min = 0,
               .max = job::kImageEdgeMax},
              {.name = "center-crop",
               .aliases = {"--center_crop"},
               .help = "crop the central square before resizing",
               .bind = DT_FIELD(Options, pack.center_crop)},
              {.name = "quality",
               .value = "N",
               .help = "quality of JPEG (1 to 100) or compression level of PNG (0 to 9)",
               .bind = DT_FIELD(Options, pack.quality),
               .min = 0,
               .max = 100},
              {.name = "color",
               .value = "1|0|-1",
               .help = "channels of the images: 1 color, 0 gray, -1 as in the file",
               .bind = DT_FIELD(Options, pack.color),
               .min = -1,
               .max = 1},
              {.name = "encoding",
               .value = ".jpg|.png",
               .help = "format of the images in the records",
               .bind = DT_FIELD(Options, pack.encoding)},
              {.name = "pass-through",
               .help = "copy the image files unchanged into the records",
               .bind = DT_FIELD(Options, pack.pass_through)},
              {.name = "pack-label",
               .aliases = {"--pack_label"},
               .help = "store all labels of an image, instead of only the first",
               .bind = DT_FIELD(Options, pack.pack_label)},
          },
          {later({"--chunks", "--train-ratio", "--train_ratio", "--test-ratio"})}};
}

constexpr const char* kUsage = "dtrain im2rec PREFIX ROOT [FLAGS], or dtrain im2rec LIST ROOT OUT [key=value ...]";

}  // namespace

Result<int> im2rec(const Call& call) {
  DT_TRY(ToolLine<Options> line, read_tool_line(flags(), kUsage, call, 2, 32));
  if (line.help) return 0;
  const Log log = Log::to_stderr("im2rec");
  const std::vector<std::string>& words = line.positionals;
  for (size_t i = 3; i < words.size(); i++) DT_TRY_VOID(tools::apply_im2rec_key(words[i], line.options));
  DT_TRY_VOID(words.size() == 2 ? tools::im2rec_prefix(words[0], words[1], line.options, log)
                                : tools::im2rec_list(words[0], words[1], words[2], line.options, log));
  return 0;
}

}  // namespace dtrain::cmd
