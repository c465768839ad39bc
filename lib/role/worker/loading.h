// How a worker reads its share of the training data, and of the validation data.
#pragma once

#include <cstdint>
#include <vector>

#include "data/loading/loader.h"
#include "job/spec/job_spec.h"

namespace dtrain::job {
struct Flags;
}

namespace dtrain::role {

// The options for training, except `allocate`. `spec` is complete; `labels` are those of the network.
data::LoaderOptions training_loading(const job::Flags& flags, const job::JobSpec& spec, const data::Dataset& data,
                                     std::vector<data::BatchLabel> labels, uint32_t rank);
// The options for validation, derived from those of training.
data::LoaderOptions validation_loading(data::LoaderOptions training, const job::JobSpec& spec,
                                       const data::Dataset& data, uint32_t rank);

}  // namespace dtrain::role
