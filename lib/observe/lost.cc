#include "observe/lost.h"

#include "base/json.h"

namespace dtrain::observe {

std::string to_json(const Lost& lost) {
  return json_text(nlohmann::ordered_json{{"lost",
                                           {{"process", lost.who},
                                            {"host", lost.host},
                                            {"why", lost.why},
                                            {"steps", lost.steps},
                                            {"seconds", lost.seconds}}}});
}

}  // namespace dtrain::observe
