#include "observe/member_change.h"

#include "base/json.h"

namespace dtrain::observe {

std::string to_json(const MemberChange& change) {
  nlohmann::ordered_json object{{"process", change.who},
                                {"host", change.host},
                                {"change", change.is_lost ? "lost" : "left"},
                                {"steps", change.steps},
                                {"seconds", change.seconds}};
  if (change.is_lost) object["why"] = change.why;
  return json_text(nlohmann::ordered_json{{"change", std::move(object)}});
}

}  // namespace dtrain::observe
