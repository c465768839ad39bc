#include "dataset/im2rec.h"

#include "signal_thread.h"
#include "tool.h"

namespace dtrain::cmd {

namespace {

using Im2recOptions = dataset::Im2recOptions;

// Binds --no-shuffle, whose value is the opposite of Im2recOptions::shuffle.
job::Binding<Im2recOptions> no_shuffle() {
  job::Binding<Im2recOptions> binding = DT_FIELD(Im2recOptions, shuffle);
  binding.set = [](Im2recOptions& options, std::string_view text) -> Result<> {
    bool off = false;
    DT_TRY_VOID(job::parse_value(text, off));
    options.shuffle = !off;
    return {};
  };
  binding.get = [](const Im2recOptions& options) { return job::format_value(!options.shuffle); };
  return binding;
}

// The flags about lists.
std::vector<job::FlagRow<Im2recOptions>> list_rows() {
  return {
      {.name = "list", .help = "write only the list, PREFIX.lst", .bind = DT_FIELD(Im2recOptions, list)},
      {.name = "recursive",
       .help = "also include the images in the directories below ROOT; each directory is a class",
       .bind = DT_FIELD(Im2recOptions, recursive)},
      {.name = "no-shuffle", .help = "keep the images in the order of their names", .bind = no_shuffle()},
      {.name = "shuffle",
       .help = "shuffle the list (this is already the default)",
       .bind = DT_FIELD(Im2recOptions, shuffle)},
      {.name = "exts",
       .value = ".A,.B",
       .help = "file name extensions of the images to include",
       .bind = DT_FIELD(Im2recOptions, extensions)},
      {.name = "chunks",
       .value = "N",
       .help = "divide the list into N lists, PREFIX_0.lst and so on",
       .bind = DT_FIELD(Im2recOptions, division.chunks),
       .min = 1,
       .max = 1 << 20},
      {.name = "train-ratio",
       .aliases = {"--train_ratio"},
       .value = "R",
       .help = "fraction of the images for PREFIX_train.lst; images in neither the training nor the test list go to "
               "PREFIX_val.lst; 1 makes one list",
       .bind = DT_FIELD(Im2recOptions, division.train_ratio),
       .min = 0,
       .max = 1},
      {.name = "test-ratio",
       .aliases = {"--test_ratio"},
       .value = "R",
       .help = "fraction of the images for PREFIX_test.lst, if --train-ratio is below 1",
       .bind = DT_FIELD(Im2recOptions, division.test_ratio),
       .min = 0,
       .max = 1},
      {.name = "val-fraction",
       .value = "F",
       .help = "fraction of each class's images for PREFIX_val.lst; the rest goes to PREFIX_train.lst",
       .bind = DT_FIELD(Im2recOptions, division.val_fraction),
       .default_text = "0: one list",
       .min = 0,
       .max = 1},
      {.name = "seed",
       .value = "N",
       .help = "seed of the choice of images for --val-fraction; equal seeds give equal lists",
       .bind = DT_FIELD(Im2recOptions, division.seed)},
      {.name = "label-width",
       .aliases = {"--label_width"},
       .value = "N",
       .help = "number of labels on each line of the list",
       .bind = DT_FIELD(Im2recOptions, label_width),
       .default_text = "all labels between the first and the last tab; 1 on a line without tabs",
       .min = 1,
       .max = 1 << 16},
      {.name = "nsplit",
       .value = "N",
       .help = "cut each list into N parts and pack only one of them, as OUT.partNNN",
       .bind = DT_FIELD(Im2recOptions, nsplit),
       .min = 1,
       .max = 1000},
      {.name = "part",
       .value = "I",
       .help = "with --nsplit: the part to pack, counted from 0",
       .bind = DT_FIELD(Im2recOptions, part),
       .min = 0,
       .max = 999},
  };
}

// The flags about the images in records.
std::vector<job::FlagRow<Im2recOptions>> im2rec_image_rows() {
  return {
      {.name = "resize",
       .value = "N",
       .help = "resize images so that the shorter edge has N pixels; 0 keeps the size",
       .bind = DT_FIELD(Im2recOptions, pack.resize),
       .min = 0,
       .max = job::kImageEdgeMax},
      {.name = "inter-method",
       .aliases = {"--inter_method"},
       .value = "N",
       .help =
           "interpolation method for resizing: 0 (nearest), 1 (bilinear), 2 (cubic), 3 (area), 4 (Lanczos), 9 (cubic "
           "if the image grows, area if it shrinks, otherwise bilinear) or 10 (drawn at random for each image)",
       .bind = DT_FIELD(Im2recOptions, pack.inter_method),
       .choices = {"0", "1", "2", "3", "4", "9", "10"},
       .min = 0,
       .max = 10},
      {.name = "center-crop",
       .aliases = {"--center_crop"},
       .help = "crop the central square before resizing",
       .bind = DT_FIELD(Im2recOptions, pack.center_crop)},
      {.name = "quality",
       .value = "N",
       .help = "JPEG quality (1 to 100) or PNG compression level (0 to 9)",
       .bind = DT_FIELD(Im2recOptions, pack.quality),
       .default_text = "95",
       .min = 0,
       .max = 100},
      {.name = "color",
       .value = "1|0|-1",
       .help = "channels of the images: 1 (color), 0 (gray) or -1 (as in the file)",
       .bind = DT_FIELD(Im2recOptions, pack.color),
       .min = -1,
       .max = 1},
      {.name = "encoding",
       .value = ".jpg|.png",
       .help = "format of the images in the records",
       .bind = DT_FIELD(Im2recOptions, pack.encoding),
       .default_text = ".jpg"},
      {.name = "restart-interval",
       .aliases = {"--restart_interval"},
       .value = "N",
       .help = "write a restart marker after every N rows of a JPEG's blocks, so that a part of the image can be "
               "decoded without the rest; with --pass-through, the files are rewritten without loss",
       .bind = DT_FIELD(Im2recOptions, pack.restart_interval),
       .default_text = "0: none",
       .min = 0,
       .max = 16384},
      {.name = "raw",
       .help = "store the pixels without encoding them; the record files are large, but need no decoding",
       .bind = DT_FIELD(Im2recOptions, pack.raw)},
      {.name = "pass-through",
       .aliases = {"--pass_through", "--unchanged"},
       .help = "copy the image files unchanged into the records",
       .bind = DT_FIELD(Im2recOptions, pack.pass_through)},
      {.name = "pack-label",
       .aliases = {"--pack_label"},
       .help = "store all labels of an image, instead of only the first",
       .bind = DT_FIELD(Im2recOptions, pack.pack_label)},
  };
}

job::FlagTable<Im2recOptions> im2rec_flags() {
  std::vector<job::FlagRow<Im2recOptions>> rows = list_rows();
  rows.push_back({.name = "num-thread",
                  .aliases = {"--num_thread", "--threads"},
                  .value = "N",
                  .help = "number of threads that encode images",
                  .bind = DT_FIELD(Im2recOptions, pack.threads),
                  .min = 1,
                  .max = job::kThreadsMax});
  for (job::FlagRow<Im2recOptions>& row : im2rec_image_rows()) rows.push_back(std::move(row));
  return {std::move(rows)};
}

constexpr const char* kIm2recUsage =
    "dtrain im2rec PREFIX ROOT [FLAGS], or dtrain im2rec LIST ROOT OUT [key=value ...]";

// Accepts a syntax of MXNet that the other tools of dtrain do not accept: `--exts .jpg .png`.
std::vector<std::string> with_own_spellings(const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  bool in_extensions = false;
  for (const std::string& word : arguments) {
    const bool is_extension = word.starts_with('.') && word.size() > 1 && word.find('/') == std::string::npos;
    if (in_extensions && is_extension && words.back() != "--exts") {
      words.back() += "," + word;
      continue;
    }
    in_extensions = word == "--exts" || (in_extensions && is_extension);
    words.push_back(word);
  }
  return words;
}

}  // namespace

Result<int> im2rec(const Call& call) {
  Call own = call;
  own.arguments = with_own_spellings(call.arguments);
  DT_TRY(ToolLine<Im2recOptions> line, read_tool_line(im2rec_flags(), kIm2recUsage, own, 2, 32));
  if (line.help) return 0;
  const std::vector<std::string>& words = line.positionals;
  for (size_t i = 3; i < words.size(); i++) DT_TRY_VOID(dataset::apply_im2rec_key(words[i], line.options));
  const SignalThread signals;
  const Log log = tool_log("im2rec", call);
  const dataset::Im2recHost host{.print = [](const std::string& text) { std::puts(text.c_str()); },
                                 .stop = &signals.signals().stop};
  DT_TRY_VOID(words.size() == 2 ? dataset::im2rec_prefix(words[0], words[1], line.options, log, host)
                                : dataset::im2rec_list(words[0], words[1], words[2], line.options, log, host));
  return 0;
}

}  // namespace dtrain::cmd
