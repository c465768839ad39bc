// A trained model, named by --pretrained-model, or by --model of the tools.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "job/spec/job_spec.h"

namespace dtrain::job {
struct Flags;
struct LoopFlags;
}  // namespace dtrain::job

namespace dtrain::role {

struct ModelName {
  std::string flag;              // the flag that names the model, for messages: "--model"
  std::string name;              // the model: a run directory, a prefix, or a .params file
  std::optional<int64_t> epoch;  // the epoch of the checkpoint; nullopt: the newest checkpoint
};
// The .params file of the model. Code::kNotFound if there is no such file; kUsage for a directory with several models,
// or for a file together with an epoch.
Result<std::string> params_of(const ModelName& model);

// The JobSpec of the run that wrote the .params file, from its directory or from the header of its states.
// Code::kNotFound if neither exists.
Result<job::JobSpec> spec_of(const std::string& params);
// PREFIX-symbol.json of PREFIX-NNNN.params; empty if there is no such file.
std::string symbol_beside(const std::string& params);

// The .params file of --pretrained-model, which is such a file, a prefix, or a run directory. The epoch is that of
// --load-epoch, else the newest. Empty without --pretrained-model. Code::kNotFound if there is no such file; kUsage for
// a directory with the models of several networks.
Result<std::string> pretrained_params(const job::LoopFlags& flags);

// Sets the flags that are not given to those of the run that trained the model: how pixels become floats, --network
// with the flags that depend on it, and --image-shape. If the model is MXNet's, the network is that of the symbol file
// next to it. Every process of a job reads these values from the files. Code::kUsage if the files do not exist.
Result<> apply_pretrained(job::Flags& flags);

// The text ", which is for images of 3,16,16 (--image-shape)", which is added to the error if a model does not fit. If
// the model's files do not give its image shape, the text names `image`, the shape of this job.
std::string images_note(const std::string& params, const std::vector<int64_t>& image);

// A hint if the model's run turned pixels into floats with a different mean, deviation or scale than these flags, which
// already contain the data set's values. Empty if the values agree, or if the model's files do not contain them.
std::string pixels_hint(const job::Flags& flags);

}  // namespace dtrain::role
