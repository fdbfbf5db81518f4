// Tests opening the store of a job that a launcher started: which rank serves it, how the others find it, and which
// servers they skip or refuse.
#include <doctest/doctest.h>

#include <condition_variable>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/membership.h"
#include "rendezvous/url/init_method.h"
#include "rendezvous/url/open_store.h"
#include "tests/rendezvous/stores.h"

namespace rondo {
namespace open_launch_test {

Launched ByPorts(Rank rank, const std::vector<std::uint16_t>& ports) {
  Launched launch;
  launch.launcher = "srun of Slurm";
  launch.rank = rank;
  launch.world_size = 2;
  launch.local_world_size = 2;
  launch.host = "127.0.0.1";
  launch.ports = ports;
  return launch;
}

InitMethod Method(const Launched& launch) {
  InitMethod method;
  method.kind = InitMethod::Kind::kLaunch;
  method.launch = launch;
  return method;
}

OpenStoreOptions Options(Rank rank, const std::string& job = "slurm/big/17.3/0", TimePoint deadline = Soon()) {
  OpenStoreOptions options;
  options.job = job;
  options.rank = rank;
  options.deadline = deadline;
  return options;
}

// The two ranks of a job open the store and share a key.
void CheckShareStore(const Launched& zero, const Launched& one, const std::string& job) {
  std::thread other([&] {
    auto opened = OpenStore(Method(one), Options(1, job));
    REQUIRE_MESSAGE(opened.has_value(), opened.error().ToString());
    CHECK(!opened->serves());
    CHECK(*opened->store().WaitFor("key", Soon()) == job);
  });
  auto opened = OpenStore(Method(zero), Options(0, job));
  REQUIRE_MESSAGE(opened.has_value(), opened.error().ToString());
  CHECK(opened->serves());
  CHECK(opened->store().Set("key", job, Soon()));
  other.join();
  CHECK(opened->Leave(Soon()));
}

// A server that accepts connections and sends nothing, as PyTorch's store does.
class SilentListener {
 public:
  explicit SilentListener(const HeldPort& port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port.port());
    REQUIRE(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(listen(fd_, 16) == 0);
  }
  ~SilentListener() { close(fd_); }

 private:
  const int fd_;
};

TEST_CASE("Rank 0 serves on the first of the job's ports") {
  const HeldPort first, second;
  const std::vector<std::uint16_t> ports{first.port(), second.port()};
  CheckShareStore(ByPorts(0, ports), ByPorts(1, ports), "job");
}

TEST_CASE("A port with a foreign server is passed over, by rank 0 and by the others") {
  const HeldPort first, second;
  const SilentListener foreign_server(first);
  const std::vector<std::uint16_t> ports{first.port(), second.port()};
  CheckShareStore(ByPorts(0, ports), ByPorts(1, ports), "job");
}

TEST_CASE("Two jobs whose ports coincide do not mix") {
  const HeldPort first, second;
  const std::vector<std::uint16_t> ports{first.port(), second.port()};
  const auto zero_of_a = OpenStore(Method(ByPorts(0, ports)), Options(0, "a"));
  REQUIRE(zero_of_a);
  CheckShareStore(ByPorts(0, ports), ByPorts(1, ports), "b");
  const auto one_of_a = OpenStore(Method(ByPorts(1, ports)), Options(1, "a"));
  CHECK(one_of_a);
}

TEST_CASE("A store of the same job that is left from an earlier run is refused") {
  const HeldPort first, second;
  const std::vector<std::uint16_t> ports{first.port(), second.port()};
  const auto left = OpenStore(Method(ByPorts(0, ports)), Options(0));
  REQUIRE(left);
  const auto again = OpenStore(Method(ByPorts(0, ports)), Options(0));
  REQUIRE(!again);
  CHECK(again.error().code() == ErrorCode::kStale);
  for (const std::string& part : {std::string("slurm/big/17.3/0"), std::to_string(first.port()),
                                  std::string("--rendezvous"), std::string("RONDO_RENDEZVOUS")}) {
    CHECK_MESSAGE(again.error().message().find(part) != std::string::npos, again.error().message());
  }
}

TEST_CASE("When all ports are taken rank 0 says so at once, and the others at the deadline which they tried") {
  const HeldPort first;
  const SilentListener foreign_server(first);
  const auto zero = OpenStore(Method(ByPorts(0, {first.port()})), Options(0));
  REQUIRE(!zero);
  CHECK(zero.error().code() == ErrorCode::kAddressInUse);
  CHECK(zero.error().message().find("srun of Slurm") != std::string::npos);
  CHECK(zero.error().message().find(std::to_string(first.port())) != std::string::npos);

  const HeldPort second;
  const auto one = OpenStore(Method(ByPorts(1, {second.port(), first.port()})), Options(1, "job", InMs(200)));
  REQUIRE(!one);
  CHECK(one.error().code() == ErrorCode::kUnreachable);
  for (const HeldPort* port : {&first, &second}) {
    CHECK_MESSAGE(one.error().message().find(std::to_string(port->port())) != std::string::npos, one.error().message());
  }
}

TEST_CASE("A launcher's own store is only connected to, by rank 0 too") {
  const auto server = StartServer();
  Launched launch = ByPorts(0, {server->port()});
  launch.external_store = true;
  const auto opened = OpenStore(Method(launch), Options(0));
  REQUIRE_MESSAGE(opened.has_value(), opened.error().ToString());
  CHECK(!opened->serves());
}

// ---- the address of the store is in a launcher's key-value space ----

// The key-value space of a launcher's job.
struct Space {
  std::mutex mutex;
  std::condition_variable said;
  std::map<std::string, std::string> lines;
};

class SpaceExchange final : public Exchange {
 public:
  explicit SpaceExchange(std::shared_ptr<Space> space) : space_(std::move(space)) {}
  const std::string& job() const override { return job_; }
  std::size_t max_line_bytes() const override { return 1000; }
  Result<std::string> Share(const std::string& name, const std::optional<std::string>& line, TimePoint) override {
    std::unique_lock lock(space_->mutex);
    if (line) space_->lines[name] = *line;
    space_->said.notify_all();
    space_->said.wait(lock, [&] { return space_->lines.count(name) != 0; });
    return space_->lines[name];
  }

 private:
  const std::shared_ptr<Space> space_;
  const std::string job_ = "mpich/kvs_1_0";
};

Launched ByExchange(Rank rank) {
  Launched launch;
  launch.launcher = "mpiexec of MPICH";
  launch.way = Launched::Way::kPmi1;
  launch.rank = rank;
  launch.world_size = 2;
  return launch;
}

OpenStoreOptions Options(Rank rank, const std::shared_ptr<Space>& space, std::vector<std::string> hosts = {}) {
  OpenStoreOptions options = Options(rank, "job");
  options.exchange = std::make_shared<SpaceExchange>(space);
  options.hosts = std::move(hosts);
  return options;
}

TEST_CASE("Rank 0 publishes the address of its store; the first of its addresses need not be the one that works") {
  const auto space = std::make_shared<Space>();
  std::thread other([&] {
    auto opened = OpenStore(Method(ByExchange(1)), Options(1, space));
    REQUIRE_MESSAGE(opened.has_value(), opened.error().ToString());
    CHECK(*opened->store().WaitFor("key", Soon()) == "value");
    CHECK(opened->store().Describe().find("127.0.0.1") != std::string::npos);
  });
  // A connection to the broadcast address fails at once.
  auto opened = OpenStore(Method(ByExchange(0)), Options(0, space, {"255.255.255.255", "127.0.0.1"}));
  REQUIRE_MESSAGE(opened.has_value(), opened.error().ToString());
  CHECK(opened->serves());
  CHECK(opened->store().Set("key", "value", Soon()));
  other.join();
  CHECK(opened->Leave(Soon()));
}

TEST_CASE("Generations have lines of their own") {
  const auto space = std::make_shared<Space>();
  OpenStoreOptions options = Options(0, space, {"127.0.0.1"});
  options.generation = 7;
  REQUIRE(OpenStore(Method(ByExchange(0)), options));
  CHECK(space->lines.count("rondo-7") == 1);
}

TEST_CASE("The other ranks get the reason at once if rank 0 has no store") {
  const auto space = std::make_shared<Space>();
  const auto zero = OpenStore(Method(ByExchange(0)), Options(0, space, {}));
  REQUIRE(!zero);
  CHECK(zero.error().code() == ErrorCode::kUnreachable);
  const auto one = OpenStore(Method(ByExchange(1)), Options(1, space));
  REQUIRE(!one);
  CHECK(one.error().code() == ErrorCode::kStoreLost);
  CHECK(one.error().culprit() == 0);
  CHECK(one.error().ToString().find("no address to which the other ranks of mpiexec of MPICH could connect") !=
        std::string::npos);
}

// ---- the store is in a file that the launcher gives the job ----

TEST_CASE("A launcher's file store serves one rendezvous: what is left of one of the same job is refused") {
  const TemporaryDirectory directory;
  Launched launch;
  launch.launcher = "mpirun of Open MPI";
  launch.way = Launched::Way::kFile;
  launch.file = directory.File("rondo-1419313153");
  {
    const auto zero = OpenStore(Method(launch), Options(0));
    REQUIRE_MESSAGE(zero.has_value(), zero.error().ToString());
    const auto one = OpenStore(Method(launch), Options(1));
    REQUIRE_MESSAGE(one.has_value(), one.error().ToString());
    REQUIRE(zero->store().Set("key", "value", Soon()));
    CHECK(*one->store().Get("key", Soon()) == "value");
  }
  const auto left = OpenStore(Method(launch), Options(0));
  REQUIRE(!left);
  CHECK(left.error().code() == ErrorCode::kStale);
  CHECK(left.error().message().find(launch.file) != std::string::npos);
  CHECK(left.error().message().find("slurm/big/17.3/0") != std::string::npos);

  // Each generation has a file of its own. So ranks that begin the next generation early need not wait until late ranks
  // have closed the file of this generation.
  const auto early = OpenStore(Method(launch), [] {
    OpenStoreOptions next = Options(0);
    next.generation = 1;
    return next;
  }());
  CHECK(early);
  OpenStoreOptions after = Options(0);
  after.generation = 2;
  CHECK(OpenStore(Method(launch), after));
}

}  // namespace open_launch_test
}  // namespace rondo
