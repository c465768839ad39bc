// A trained model that a flag names: --pretrained-model, or --model of the tools.
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
  std::string flag;              // for messages: "--model"
  std::string name;              // a run directory, a prefix, or a .params file
  std::optional<int64_t> epoch;  // nullopt: the newest checkpoint
};
// The .params file of the model. Code::kNotFound: there is no such file; kUsage: a directory with several models, or a
// file and an epoch.
Result<std::string> params_of(const ModelName& model);

// The JobSpec of the run that wrote the .params file, from its directory or from the header of its states.
// Code::kNotFound if neither is there.
Result<job::JobSpec> spec_of(const std::string& params);
// PREFIX-symbol.json of PREFIX-NNNN.params; empty if there is no such file.
std::string symbol_beside(const std::string& params);

// The .params file of the model: --pretrained-model is such a file, a prefix, or a run directory, and the epoch that of
// --load-epoch, or else the newest. Empty without --pretrained-model. Code::kNotFound: there is no such file; kUsage: a
// directory with the models of several networks.
Result<std::string> pretrained_params(const job::LoopFlags& flags);

// Sets how pixels become floats to what it was in the run that trained the model, where the flags leave it open.
// Without
// --network, sets the network and what it depends on, and without --image-shape the shape, to those of that run, or the
// network to that of the symbol file beside the model, if it is MXNet's. Every process of a job reads them from these
// files. Code::kUsage: they are not there.
Result<> apply_pretrained(job::Flags& flags);

// ", which is for images of 3,16,16 (--image-shape)", for the error of a model that does not fit. If its files do not
// tell, the text names the shape `image` of this job.
std::string images_note(const std::string& params, const std::vector<int64_t>& image);

// A hint if the model's run turned pixels into floats in another way than these flags, which name the data set's
// values: with another mean, deviation or scale. Empty if it did not, or if its files do not tell.
std::string pixels_hint(const job::Flags& flags);

}  // namespace dtrain::role
