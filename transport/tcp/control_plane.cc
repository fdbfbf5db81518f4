#include "transport/tcp/control_plane.h"

#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <csignal>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "transport/tcp/address.h"
#include "transport/tcp/greeter.h"
#include "transport/tcp/group.h"
#include "transport/tcp/interfaces.h"

namespace rondo::tcp {
namespace {

using Name = std::pair<std::uint64_t, std::uint32_t>;  // communicator, rail

constexpr std::size_t kRememberedNames = 1024;  // of closed groups, to refuse their late callers at once

const IpAddress kAnyV4 = {};
IpAddress AnyV6() { return IpAddress::FromBytes(std::vector<std::byte>(16)); }

struct Listening {
  std::vector<Fd> sockets;
  std::vector<Candidate> candidates;
};

Candidate MakeCandidate(const LocalAddress& local, std::uint16_t port) {
  Candidate candidate;
  candidate.at = {local.ip, port};
  candidate.prefix_bits = local.prefix_bits;
  candidate.address_class = Classify(local);
  candidate.interface = local.interface;
  return candidate;
}

// Where the user chose addresses or interfaces, exactly those are listened on; else one socket takes all.
Result<Listening> ListenOn(const TcpOptions& options, const std::vector<LocalAddress>& chosen) {
  Listening listening;
  const bool chosen_by_user = !options.addresses.empty() || !options.interface.empty();
  if (chosen_by_user) {
    for (const LocalAddress& local : chosen) {
      RONDO_ASSIGN(Fd fd,
                   Listen({local.ip, options.port}, options.listen_backlog, false, options.local_congestion_control));
      listening.candidates.push_back(MakeCandidate(local, LocalSocketAddress(fd.get()).port));
      listening.sockets.push_back(std::move(fd));
    }
    return listening;
  }
  bool v6 = true;
  Result<Fd> fd = Listen({AnyV6(), options.port}, options.listen_backlog, true, options.local_congestion_control);
  if (!fd && fd.error().code() != ErrorCode::kAddressInUse && fd.error().code() != ErrorCode::kResource) {
    v6 = false;  // a machine without IPv6
    fd = Listen({kAnyV4, options.port}, options.listen_backlog, false, options.local_congestion_control);
  }
  if (!fd) return Fail(fd.error());
  const std::uint16_t port = LocalSocketAddress(fd->get()).port;
  for (const LocalAddress& local : chosen) {
    if (v6 || local.ip.is_v4()) listening.candidates.push_back(MakeCandidate(local, port));
  }
  listening.sockets.push_back(std::move(*fd));
  return listening;
}

}  // namespace

struct ControlPlane::Impl {
  Impl(TcpOptions given, TcpAddress address, std::vector<LocalAddress> interfaces)
      : options(std::move(given)),
        self(std::move(address)),
        local(std::move(interfaces)),
        io(1),
        work(io.get_executor()),
        greeter(io, options, *options.clock, {options.job, options.generation, self.instance},
                [this](const CallerPtr& caller) { OnCaller(caller); }) {}

  void OnCaller(const CallerPtr& caller);
  void Adopt(const Name& name, const std::shared_ptr<Group>& group);

  const TcpOptions options;
  const TcpAddress self;
  const std::vector<LocalAddress> local;
  std::string description;

  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> work;

  // The control thread's:
  Greeter greeter;
  std::map<Name, std::shared_ptr<Group>> groups;
  std::map<Name, std::vector<CallerPtr>> held;
  std::size_t held_count = 0;
  std::deque<Name> closed_names;  // oldest first

  std::mutex names_mutex;
  std::set<Name> names;  // guarded by names_mutex: of the groups between OpenGroup and CloseGroup

  std::thread thread;
};

ControlPlane::ControlPlane(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::shared_ptr<ControlPlane>> ControlPlane::Start(TcpOptions options) {
  RONDO_ASSIGN(std::vector<LocalAddress> local, EnumerateInterfaces());
  RONDO_ASSIGN(std::vector<LocalAddress> chosen, ChooseAddresses(local, options.addresses, options.interface));
  std::string left_out;
  for (; chosen.size() > kMaxCandidates; chosen.pop_back()) {
    left_out += fmt::format("\n  {} on {}: left out, more than {} candidates", chosen.back().ip.ToString(),
                            chosen.back().interface, kMaxCandidates);
  }
  RONDO_ASSIGN(Listening listening, ListenOn(options, chosen));

  TcpAddress self;
  self.host = LocalHostName().substr(0, kMaxNameBytes);
  self.host_id = options.host_id;
  self.instance = options.instance;
  self.candidates = std::move(listening.candidates);
  const char* const reason = !options.addresses.empty()   ? "forced by --address"
                             : !options.interface.empty() ? "chosen by --interface"
                                                          : "all interfaces";
  std::string description = fmt::format(
      "tcp: host {}, {}; tried by peers in this order, after the ones in their own "
      "subnet (on this host: loopback first)",
      self.host, reason);
  for (const Candidate& candidate : self.candidates) {
    description += fmt::format("\n  {} on {}: {}", candidate.at.ToString(), candidate.interface,
                               rondo::tcp::Describe(candidate.address_class));
  }
  description += left_out;

  try {  // Asio and std::thread throw where the system runs out of descriptors, memory or threads
    auto impl = std::make_unique<Impl>(std::move(options), std::move(self), std::move(local));
    impl->description = std::move(description);
    for (Fd& fd : listening.sockets) RONDO_TRY(impl->greeter.Add(std::move(fd)));
    impl->greeter.Start();
    // Signals belong to the application's threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::error_code failed;
    try {
      impl->thread = std::thread([io = &impl->io] { io->run(); });
    } catch (const std::system_error& error) {
      failed = error.code();
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (failed) return Fail(ErrorCode::kResource, "the TCP control thread cannot be started: {}", failed.message());
    return std::shared_ptr<ControlPlane>(new ControlPlane(std::move(impl)));
  } catch (const std::system_error& error) {
    return Fail(ErrorCode::kResource, "the TCP control thread cannot be set up: {}", error.what());
  }
}

ControlPlane::~ControlPlane() {
  impl_->work.reset();
  impl_->io.stop();
  impl_->thread.join();
}

const TcpOptions& ControlPlane::options() const { return impl_->options; }
const TcpAddress& ControlPlane::address() const { return impl_->self; }
std::string ControlPlane::Describe() const { return impl_->description; }

Result<std::shared_ptr<Group>> ControlPlane::OpenGroup(GroupConfig config) {
  const Name name{config.communicator, config.rail};
  {
    const std::lock_guard lock(impl_->names_mutex);
    if (!impl_->names.insert(name).second) {
      return Fail(ErrorCode::kInvalidArgument, "communicator {} rail {} is open already on this transport", name.first,
                  name.second);
    }
  }
  const GroupContext context{impl_->io, impl_->options, impl_->self, impl_->local, impl_->greeter};
  auto group = std::make_shared<Group>(context, std::move(config));
  asio::post(impl_->io, [impl = impl_.get(), name, group] { impl->Adopt(name, group); });
  return group;
}

void ControlPlane::CloseGroup(const std::shared_ptr<Group>& group) {
  const Name name{group->config().communicator, group->config().rail};
  std::promise<void> done;
  asio::post(impl_->io, [impl = impl_.get(), name, &group, &done] {
    group->Close();
    impl->groups.erase(name);
    impl->closed_names.push_back(name);
    if (impl->closed_names.size() > kRememberedNames) impl->closed_names.pop_front();
    done.set_value();
  });
  done.get_future().wait();
  const std::lock_guard lock(impl_->names_mutex);
  impl_->names.erase(name);
}

void ControlPlane::OpenLane(const std::shared_ptr<Group>& group, Rank peer, std::uint32_t index) {
  group->Expect(peer);
  asio::post(impl_->io, [group, peer, index] { group->OpenLane(peer, index); });
}

void ControlPlane::ShutDown(const std::shared_ptr<Group>& group) {
  asio::post(impl_->io, [group] { group->ShutDown(); });
}

void ControlPlane::Impl::Adopt(const Name& name, const std::shared_ptr<Group>& group) {
  groups[name] = group;
  closed_names.erase(std::remove(closed_names.begin(), closed_names.end(), name), closed_names.end());
  const auto waiting = held.extract(name);
  if (waiting.empty()) return;
  held_count -= waiting.mapped().size();
  for (const CallerPtr& caller : waiting.mapped()) group->OnCaller(caller);
}

void ControlPlane::Impl::OnCaller(const CallerPtr& caller) {
  const Name name{caller->hello().communicator, caller->hello().rail};
  if (const auto found = groups.find(name); found != groups.end()) return found->second->OnCaller(caller);
  if (std::find(closed_names.begin(), closed_names.end(), name) != closed_names.end()) {
    const Reply reply{Verdict::kRefused, ErrorCode::kClosed,
                      fmt::format("communicator {} rail {} is closed here", name.first, name.second)};
    return greeter.TurnAway(caller, reply);
  }
  if (held_count >= options.max_held_connections) {
    return greeter.TurnAway(caller, {Verdict::kTryAgain, ErrorCode::kResource,
                                     fmt::format("{} connections wait for endpoints already", held_count)});
  }
  ++options.counters->held;
  ++held_count;
  held[name].push_back(caller);
  caller->Hold(options.held_timeout, [this, name, caller = caller.get()] {
    ++options.counters->gave_up;
    const auto found = held.find(name);
    if (found == held.end()) return;
    held_count -= std::erase_if(found->second, [&](const CallerPtr& other) { return other.get() == caller; });
    if (found->second.empty()) held.erase(found);
  });
}

}  // namespace rondo::tcp
