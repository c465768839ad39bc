// dtrain im2rec: packs image files into record files. It accepts the command lines of both of MXNet's im2rec tools:
//   im2rec PREFIX ROOT [options]            handled by im2rec_prefix
//   im2rec LIST ROOT OUT [key=value ...]    handled by im2rec_list, with apply_im2rec_key for each key
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "dataset/packing/list_files.h"
#include "dataset/packing/pack.h"

namespace dtrain::dataset {

struct Im2recOptions {
  bool list = false;  // whether to create only the lists
  // True: one label per directory below ROOT; false: only the images in ROOT itself, with label 0.
  bool recursive = false;
  bool shuffle = true;  // whether to shuffle the list, into the same order as im2rec.py
  std::vector<std::string> extensions = {".jpeg", ".jpg", ".png"};
  ListDivision division;
  int label_width = 0;  // number of labels on each line of a list; 0: all fields between the first and the last TAB
  // Divide each list into this number of parts and pack only one of them, for example on each of several hosts.
  int nsplit = 1;
  int part = 0;  // number of the part to pack; its file is OUT.partNNN
  PackOptions pack;
};
// Code::kUsage if a value is out of range, or has no effect because of another value.
Result<> check(const Im2recOptions& options);

// The functions of the calling command: how to print the table of directories, and how to stop the packing.
struct Im2recHost {
  std::function<void(const std::string& line)> print = [](const std::string&) {};
  const std::atomic<bool>* stop = nullptr;
};

// Packs every list whose path begins with `prefix` and ends in .lst: X.lst becomes X.rec and X.idx. If `prefix` is a
// directory, packs all lists in it. If there is no list, or if options.list is set, first creates the list PREFIX.lst
// of the images in `root`, or several lists (dataset/packing/list_files.h). Continues where an earlier run was
// interrupted. Code::kNotFound if there is no image; kData if a list yields no record; kPreempted if the host's `stop`
// became true.
Result<> im2rec_prefix(const std::string& prefix, const std::string& root, const Im2recOptions& options, const Log& log,
                       const Im2recHost& host = {});

// Packs one list into the record file `out`, and writes its index next to it.
Result<> im2rec_list(const std::string& list, const std::string& root, const std::string& out,
                     const Im2recOptions& options, const Log& log, const Im2recHost& host = {});

// Applies an argument such as "resize=256". The keys are those of MXNet's im2rec.cc: color, resize, center_crop,
// label_width, pack_label, nsplit, part, quality, encoding, inter_method, unchanged; and num_thread, restart_interval
// and raw. Code::kUsage for other keys, and for values that are not numbers.
Result<> apply_im2rec_key(std::string_view key_value, Im2recOptions& options);

}  // namespace dtrain::dataset
