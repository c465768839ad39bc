// How weights are updated: the optimizer, the learning-rate schedule, and the weighting by staleness.
#pragma once

#include "job/spec/job_plan.h"
#include "kvstore/update_rule.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace dtrain::job {
struct JobFlags;
}

namespace dtrain::role {

optim::OptimizerSpec optimizer_spec(const job::JobFlags& flags);
optim::ScheduleSpec schedule_spec(const job::JobFlags& flags);
// `plan`: the plan of the complete JobSpec with these flags.
kvstore::UpdateRule update_rule(const job::JobFlags& flags, const job::JobPlan& plan);
// The weight of --gsp-weight. Schemes other than GSP do not weight updates.
kvstore::StalenessWeight staleness_weight(const job::JobFlags& flags, const job::JobPlan& plan);

}  // namespace dtrain::role
