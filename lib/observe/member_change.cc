#include "observe/member_change.h"

#include "base/json.h"

namespace dtrain::observe {

namespace {

const char* name_of(MemberChange::Kind kind) {
  switch (kind) {
    case MemberChange::Kind::kLost: break;
    case MemberChange::Kind::kLeft: return "left";
    case MemberChange::Kind::kJoined: return "joined";
  }
  return "lost";
}

}  // namespace

std::string to_json(const MemberChange& change) {
  nlohmann::ordered_json object{{"process", change.who},
                                {"host", change.host},
                                {"change", name_of(change.kind)},
                                {"steps", change.steps},
                                {"seconds", change.seconds}};
  if (change.kind == MemberChange::Kind::kLost) object["why"] = change.why;
  return json_text(nlohmann::ordered_json{{"change", std::move(object)}});
}

}  // namespace dtrain::observe
