// A lost server is replaced while the job trains, and all go back to snapshots.
#include "membership_conversation.h"

namespace dtrain::sync::membership {
namespace {

constexpr Incarnation kNewServer = 300, kNewestServer = 301;

Settings returning(uint32_t workers, uint32_t servers, OnServerLoss policy = OnServerLoss::kGoBack) {
  Settings its = settings(workers, servers);
  its.on_server_loss = policy;
  return its;
}

std::vector<Effect> lose_server(Conversation& job, Millis now, uint32_t rank) {
  return job.say(now, ProcessEnded{{Role::kServer, rank}, "was killed by signal 9 (Killed)"});
}

// The servers acknowledge the view with which they are asked for their snapshots again; returns what follows.
std::vector<Effect> acknowledge(Conversation& job, Millis now, const std::vector<Effect>& asked,
                                const std::vector<Incarnation>& servers) {
  std::vector<Effect> out;
  for (const Incarnation server : servers) {
    for (Effect& effect : job.say(now, Viewed{server, notices<View>(asked).back().number})) {
      out.push_back(std::move(effect));
    }
  }
  return out;
}

std::vector<Effect> come(Conversation& job, Millis now, uint32_t rank, Incarnation incarnation = kNewServer) {
  return job.say(now, Join{.incarnation = incarnation,
                           .role = Role::kServer,
                           .want_rank = rank,
                           .job_text = "",
                           .address = "10.0.0.9:4000"});
}

BarrierEnter without_server(uint32_t rank, uint64_t seq) {
  BarrierEnter enter = meeting(rank, seq);
  enter.is_torn = true;
  return enter;
}

}  // namespace

TEST_CASE("without snapshots a lost server ends the job", "[sync][membership]") {
  Conversation job = training(settings(2, 2));
  const auto stops = notices<StopJob>(lose_server(job, 100, 1));
  REQUIRE_FALSE(stops.empty());
  CHECK(stops[0].code == Code::kPeerLost);
}

TEST_CASE("a lost server is replaced, and all go back to the newest snapshots of the same version",
          "[sync][membership]") {
  Conversation job = training(returning(2, 2));
  (void)job.say(50, Snapshots{Conversation::server(0), {20, 10, 30}});
  (void)job.say(50, Snapshots{Conversation::server(1), {10, 20}});
  const auto lost = lose_server(job, 100, 1);
  CHECK(all<DeclareLost>(lost).at(0).continues);
  const auto views = notices<View>(lost);
  REQUIRE(views.size() == 4);  // also to the lost server, which may live
  CHECK(views[0].servers[0].is_live);
  CHECK_FALSE(views[0].servers[1].is_live);
  CHECK(views[0].must_restore);
  CHECK(job.machine.vacancies() == std::vector<Member>{{Role::kServer, 1}});

  CHECK(all<ReleaseBarrier>(job.say(110, without_server(0, 1))).empty());
  CHECK(all<ReleaseBarrier>(job.say(120, meeting(1, 1))).empty());  // this one had completed its step
  const auto admitted = come(job, 200, 1);
  REQUIRE(all<Admit>(admitted).size() == 1);
  CHECK(all<Admit>(admitted)[0].node.member == Member{Role::kServer, 1});
  CHECK(all<Admit>(admitted)[0].restores == 0);
  CHECK(notices<View>(admitted).at(0).servers[1].address == "10.0.0.9:4000");
  CHECK(all<DeclareRestore>(admitted).empty());  // it has not said which snapshots it has
  CHECK(job.machine.vacancies().empty());
  CHECK(all<DeclareRestore>(acknowledge(job, 205, admitted, {Conversation::server(0), kNewServer})).empty());

  const auto restored = job.say(210, Snapshots{kNewServer, {10, 20}});
  REQUIRE(all<DeclareRestore>(restored).size() == 1);
  CHECK(all<DeclareRestore>(restored)[0].version == 20);
  const View view = notices<View>(restored).at(0);
  CHECK(view.restores == 1);
  CHECK(view.restored == 20);
  CHECK_FALSE(view.must_restore);
  CHECK(all<ReleaseBarrier>(job.say(220, Viewed{Conversation::server(0), view.number})).empty());
  const auto released = all<ReleaseBarrier>(job.say(230, Viewed{kNewServer, view.number}));
  REQUIRE(released.size() == 1);
  CHECK(released[0].restored == 20);
  CHECK(released[0].view == view.number);
  CHECK(released[0].gone.empty());
  // The next barriers are ordinary ones.
  (void)job.say(300, meeting(0, 2));
  CHECK_FALSE(all<ReleaseBarrier>(job.say(310, meeting(1, 2))).at(0).restored);
}

TEST_CASE("servers report their snapshots again before they go back", "[sync][membership]") {
  Conversation job = training(returning(1, 2));
  (void)job.say(50, Snapshots{Conversation::server(0), {10, 20, 30}});
  (void)lose_server(job, 100, 1);
  const auto came = come(job, 200, 1);
  (void)job.say(210, Snapshots{kNewServer, {10, 20}});
  const auto asked = job.say(220, without_server(0, 1));
  CHECK(notices<View>(asked).at(0).number > notices<View>(came).at(0).number);
  CHECK(all<DeclareRestore>(asked).empty());
  // The old server has deleted the first one meanwhile.
  (void)job.say(230, Snapshots{Conversation::server(0), {20, 30, 40}});
  CHECK(all<DeclareRestore>(acknowledge(job, 240, asked, {Conversation::server(0)})).empty());
  (void)job.say(250, Snapshots{kNewServer, {10, 20}});
  CHECK(all<DeclareRestore>(acknowledge(job, 260, asked, {kNewServer})).at(0).version == 20);
}

TEST_CASE("all go back to a version at which every worker has kept its position", "[sync][membership]") {
  Conversation job = training(returning(3, 1));
  (void)lose_server(job, 100, 0);
  const std::optional<uint64_t> kept[] = {30, 20, std::nullopt};  // the third one has joined later
  for (uint32_t rank = 0; rank < 3; rank++) {
    BarrierEnter enter = without_server(rank, 1);
    enter.kept = kept[rank];
    (void)job.say(110, enter);
  }
  const auto came = come(job, 200, 0);
  (void)job.say(205, Snapshots{kNewServer, {10, 20, 30}});
  CHECK(all<DeclareRestore>(acknowledge(job, 210, came, {kNewServer})).at(0).version == 20);
}

TEST_CASE("a second loss while the servers go back starts that again", "[sync][membership]") {
  Conversation job = training(returning(1, 2));
  for (const uint32_t server : {0, 1}) (void)job.say(50, Snapshots{Conversation::server(server), {10, 20}});
  (void)lose_server(job, 100, 1);
  (void)job.say(110, without_server(0, 1));
  (void)acknowledge(job, 205, come(job, 200, 1), {Conversation::server(0), kNewServer});
  const View first = notices<View>(job.say(210, Snapshots{kNewServer, {10, 20}})).at(0);
  (void)job.say(220, Viewed{kNewServer, first.number});
  (void)lose_server(job, 230, 0);
  CHECK(all<ReleaseBarrier>(job.say(240, Viewed{kNewServer, first.number + 1})).empty());
  (void)acknowledge(job, 305, come(job, 300, 0, kNewestServer), {kNewServer, kNewestServer});
  const auto again = job.say(310, Snapshots{kNewestServer, {10}});
  REQUIRE(all<DeclareRestore>(again).size() == 1);
  CHECK(all<DeclareRestore>(again)[0].version == 10);
  const View second = notices<View>(again).at(0);
  CHECK(second.restores == 2);
  (void)job.say(320, Viewed{kNewServer, second.number});
  CHECK(all<ReleaseBarrier>(job.say(330, Viewed{kNewestServer, second.number})).at(0).restored == 10);
}

TEST_CASE("servers without a common snapshot end the job, and the message names the flag", "[sync][membership]") {
  Conversation job = training(returning(1, 2));
  (void)job.say(50, Snapshots{Conversation::server(0), {20}});
  (void)lose_server(job, 100, 1);
  (void)job.say(110, without_server(0, 1));
  (void)acknowledge(job, 205, come(job, 200, 1), {Conversation::server(0), kNewServer});
  const auto stops = notices<StopJob>(job.say(210, Snapshots{kNewServer, {10}}));
  REQUIRE_FALSE(stops.empty());
  CHECK(stops[0].code == Code::kPeerLost);
  CHECK(stops[0].message.find("--snapshot-every") != std::string::npos);
}

TEST_CASE("if the others keep what they have, only the new server needs a snapshot, and goes back once",
          "[sync][membership]") {
  Conversation job = training(returning(1, 2, OnServerLoss::kKeep));
  (void)lose_server(job, 100, 1);
  (void)job.say(110, without_server(0, 1));
  (void)acknowledge(job, 205, come(job, 200, 1), {Conversation::server(0), kNewServer});
  const auto restored = job.say(210, Snapshots{kNewServer, {10, 20}});
  REQUIRE(all<DeclareRestore>(restored).size() == 1);
  CHECK(all<DeclareRestore>(restored)[0].others_keep);
  const View view = notices<View>(restored).at(0);
  CHECK(view.restores == 1);
  (void)job.say(220, Viewed{Conversation::server(0), view.number});
  CHECK(all<ReleaseBarrier>(job.say(230, Viewed{kNewServer, view.number})).at(0).restored);

  SECTION("then the other one is lost") {
    (void)job.say(240, Snapshots{kNewServer, {}});
    (void)lose_server(job, 300, 0);
    (void)job.say(310, without_server(0, 2));
    (void)acknowledge(job, 405, come(job, 400, 0, kNewestServer), {kNewServer, kNewestServer});
    CHECK(all<DeclareRestore>(job.say(410, Snapshots{kNewestServer, {30}})).size() == 1);
  }
  SECTION("a further one has none") {
    (void)lose_server(job, 300, 0);
    (void)job.say(310, without_server(0, 2));
    (void)acknowledge(job, 405, come(job, 400, 0, kNewestServer), {kNewServer, kNewestServer});
    const auto stops = notices<StopJob>(job.say(410, Snapshots{kNewestServer, {}}));
    REQUIRE_FALSE(stops.empty());
    CHECK(stops[0].message.find("it has no snapshot") != std::string::npos);
  }
}

TEST_CASE("a server without slices needs no snapshot", "[sync][membership]") {
  Conversation job = training(returning(1, 2));
  (void)job.say(50, Snapshots{Conversation::server(0), {10, 20}});
  (void)job.say(50, Snapshots{.incarnation = Conversation::server(1), .needs_none = true});
  (void)lose_server(job, 100, 1);
  (void)job.say(110, without_server(0, 1));
  (void)acknowledge(job, 205, come(job, 200, 1), {Conversation::server(0), kNewServer});
  const auto restored = job.say(210, Snapshots{.incarnation = kNewServer, .needs_none = true});
  CHECK(all<DeclareRestore>(restored).at(0).version == 20);
}

TEST_CASE("a lost server that nobody replaces ends the job in time", "[sync][membership]") {
  Settings its = returning(1, 1);
  its.rejoin_timeout_ms = 5'000;
  its.heartbeat_timeout_ms = 100'000;
  Conversation job = training(its);
  (void)lose_server(job, 100, 0);
  (void)job.say(110, without_server(0, 1));
  CHECK(notices<StopJob>(job.say(5'000, Tick{})).empty());
  const auto stops = notices<StopJob>(job.say(5'100, Tick{}));
  REQUIRE_FALSE(stops.empty());
  CHECK(
      stops[0].message ==
      "server 0 was lost: its process was killed by signal 9 (Killed); no other server has taken its place within 5 s "
      "(--rejoin-timeout)");
}

TEST_CASE("only a server with the same flags takes the place of a lost one", "[sync][membership]") {
  Settings its = returning(1, 2);
  its.job_text = "lr = 0.1\n";
  Conversation job(its);
  (void)job.say(0, Join{.incarnation = Conversation::worker(0), .want_rank = 0, .job_text = "lr = 0.1\n"});
  for (uint32_t i = 0; i < 2; i++) {
    (void)job.say(
        0,
        Join{.incarnation = Conversation::server(i), .role = Role::kServer, .want_rank = i, .job_text = "lr = 0.1\n"});
  }
  (void)job.say(0, Ready{});
  (void)job.say(0, BarrierEnter{.incarnation = Conversation::worker(0),
                                .name = "the initial weights",
                                .content = "0 numbers",
                                .begins_training = true});
  (void)lose_server(job, 100, 1);
  const auto refused = all<Refuse>(
      job.say(200, Join{.incarnation = kNewServer, .role = Role::kServer, .want_rank = 1, .job_text = "lr = 0.2\n"}));
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].why.find("lr") != std::string::npos);
  // The other one lives.
  CHECK(all<Refuse>(
            job.say(210,
                    Join{.incarnation = kNewServer, .role = Role::kServer, .want_rank = 0, .job_text = "lr = 0.1\n"}))
            .size() == 1);
}

TEST_CASE("old reports of lost connections do not count against the new server", "[sync][membership]") {
  Settings its = returning(2, 1);
  its.heartbeat_timeout_ms = 1'000;
  its.reconnect_ms = 100'000;
  Conversation job = training(its);
  const auto beat = [&](Millis now) {
    for (const Incarnation one : {Conversation::worker(0), Conversation::worker(1), kNewServer}) {
      (void)job.say(now, Heartbeat{one});
    }
  };
  (void)lose_server(job, 100, 0);
  for (uint32_t rank = 0; rank < 2; rank++) {
    (void)job.say(110, LinksLost{Conversation::worker(rank), {{0, 10, "cut"}}});
  }
  beat(2'000);
  (void)come(job, 2'000, 0);
  for (uint32_t rank = 0; rank < 2; rank++) {
    (void)job.say(2'100, LinksLost{Conversation::worker(rank), {{0, 2'000, "cut"}}});
  }
  beat(2'500);
  CHECK(all<DeclareLost>(job.say(2'500, Tick{})).empty());
  beat(3'100);
  CHECK(all<DeclareLost>(job.say(3'100, Tick{})).size() == 1);
}

TEST_CASE("a scheduler that comes back knows which server is missing", "[sync][membership]") {
  Conversation job = training(returning(1, 2));
  (void)lose_server(job, 100, 1);
  const auto decisions = job.machine.decisions();
  REQUIRE(decisions);
  Machine again(returning(1, 2));
  REQUIRE(again.restore(*decisions, 200));
  CHECK(again.vacancies() == std::vector<Member>{{Role::kServer, 1}});
  CHECK(again.decisions() == decisions);
}

}  // namespace dtrain::sync::membership
