#include "transport/tcp/control_plane.h"

#include <fmt/core.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/out_of_memory.h"
#include "base/service_thread.h"
#include "base/tasks.h"
#include "transport/tcp/address.h"
#include "transport/tcp/group.h"
#include "transport/tcp/handshake_acceptor.h"
#include "transport/tcp/interfaces.h"
#include "transport/tcp/left_behind_sender.h"
#include "transport/tcp/socket.h"

namespace rondo::tcp {
namespace {

using Name = std::pair<std::uint64_t, std::uint32_t>;  // communicator, rail

// Memory in which Asio stores one small handler.
struct HandlerMemory {
  alignas(std::max_align_t) std::array<std::byte, 256> bytes;
};

// The allocator that gives a HandlerMemory to Asio.
template <typename T>
class HandlerAllocator {
 public:
  using value_type = T;
  explicit HandlerAllocator(HandlerMemory& memory) : memory_(&memory) {}
  template <typename Other>
  HandlerAllocator(const HandlerAllocator<Other>& other)
      : memory_(other.memory_) {}  // NOLINT(google-explicit-constructor)

  T* allocate(std::size_t count) const {
    RONDO_CHECK(count * sizeof(T) <= memory_->bytes.size(), "a handler of {} bytes", count * sizeof(T));
    return reinterpret_cast<T*>(memory_->bytes.data());
  }
  void deallocate(T*, std::size_t) const {}
  template <typename Other>
  bool operator==(const HandlerAllocator<Other>& other) const {
    return memory_ == other.memory_;
  }

 private:
  template <typename Other>
  friend class HandlerAllocator;
  HandlerMemory* memory_;
};

constexpr std::size_t kLoopDescriptors = 3;      // used by Asio's event loop: an epoll set, an eventfd and a timerfd
constexpr std::size_t kRememberedGroups = 1024;  // number of closed groups whose late clients get a reply at once

const IpAddress kAnyV4 = {};
IpAddress AnyV6() { return IpAddress::FromBytes(std::vector<std::byte>(16)); }

// A closed group. Its late clients get a reply.
struct ClosedGroup {
  Name name;
  Rank rank = kNoRank;
  std::string left_behind;  // the result of Group::left_behind
};

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
  candidate.mbps = local.mbps;
  return candidate;
}

// Listens on the addresses that the user chose, by address or interface. If the user chose none, one socket takes
// connections to all addresses.
Result<Listening> ListenOn(const TcpOptions& options, const std::vector<LocalAddress>& chosen) {
  Listening listening;
  const bool chosen_by_user = !options.addresses.empty() || !options.interface.empty();
  if (chosen_by_user) {
    for (const LocalAddress& local : chosen) {
      Result<Fd> fd = Listen({local.ip, options.port}, options.listen_backlog, false, options.local_congestion_control,
                             options.ports);
      // An IPv6 address is tentative for about two seconds after its interface came up. That is an error if the user
      // chose only this address; otherwise the interface's other addresses are used.
      const bool is_tentative = !fd && fd.error().code() == ErrorCode::kInvalidArgument && !local.ip.is_v4();
      if (is_tentative && options.addresses.empty() && chosen.size() > 1) continue;
      if (!fd) return Fail(fd.error());
      listening.candidates.push_back(MakeCandidate(local, LocalSocketAddress(fd->get()).port));
      listening.sockets.push_back(std::move(*fd));
    }
    if (listening.sockets.empty())
      return Fail(ErrorCode::kInvalidArgument, "cannot listen on any address of the interfaces '{}' yet",
                  options.interface);
    return listening;
  }
  bool v6 = true;
  Result<Fd> fd =
      Listen({AnyV6(), options.port}, options.listen_backlog, true, options.local_congestion_control, options.ports);
  if (!fd && fd.error().code() != ErrorCode::kAddressInUse && fd.error().code() != ErrorCode::kResource) {
    v6 = false;  // the machine has no IPv6
    fd = Listen({kAnyV4, options.port}, options.listen_backlog, false, options.local_congestion_control, options.ports);
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
        acceptor(io, options, *options.clock, {options.job, options.generation, self.instance},
                 [this](const IncomingPtr& connection) { OnConnection(connection); }) {}

  void Run();
  void HangUpOnHeld();
  void OnConnection(const IncomingPtr& connection);
  void AnswerFor(const ClosedGroup& closed, const IncomingPtr& connection);
  void Adopt(const Name& name, const std::shared_ptr<Group>& group);

  const TcpOptions options;
  const TcpAddress self;
  const std::vector<LocalAddress> local;
  std::string description;

  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> work;

  // Only the control thread uses the members from here to `warned_of_networks`:
  HandshakeAcceptor acceptor;
  std::map<Name, std::shared_ptr<Group>> groups;
  std::map<Name, std::vector<IncomingPtr>> held;
  std::size_t held_count = 0;
  std::deque<ClosedGroup> closed_groups;  // oldest first
  bool warned_of_networks = false;        // a log line has said that another network may be faster than the one in use

  std::mutex names_mutex;
  std::set<Name> names;  // guarded by names_mutex: the names of groups that are open or being opened

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
    description += fmt::format("\n  {} on {}: {}{}", candidate.at.ToString(), candidate.interface,
                               rondo::tcp::Describe(candidate.address_class),
                               candidate.mbps > 0 ? ", " + DescribeSpeed(candidate.mbps) : "");
  }
  if (const NetworkChoice networks = DescribeNetworks(self.candidates); !networks.text.empty())
    description += "\n  " + networks.text;
  description += left_out;

  try {  // Asio and std::thread throw if no descriptors, memory or threads are left
    auto made = std::make_unique<Impl>(std::move(options), std::move(self), std::move(local));
    Impl* const impl = made.get();
    const std::shared_ptr<ControlPlane> plane(new ControlPlane(std::move(made)));
    impl->description = std::move(description);
    for (Fd& fd : listening.sockets) RONDO_TRY(impl->acceptor.Add(std::move(fd)));
    impl->acceptor.Start();
    std::error_code failed;
    try {
      impl->thread = StartServiceThread("rondo-control", [impl] { impl->Run(); });
    } catch (const std::system_error& error) {
      failed = error.code();
    } catch (const std::bad_alloc&) {
      failed = std::make_error_code(std::errc::not_enough_memory);
    }
    if (failed)
      return Fail(ErrorCode::kResource, "the TCP control thread cannot be started: {}", TaskWords(failed.value()));
    return plane;
  } catch (const std::system_error& error) {
    return Fail(ErrorCode::kResource, "the TCP control thread cannot be set up: {}",
                SystemWords(error.code().value(), kLoopDescriptors));
  }
}

ControlPlane::~ControlPlane() {
  impl_->work.reset();
  impl_->io.stop();
  if (impl_->thread.joinable()) impl_->thread.join();
}

const TcpOptions& ControlPlane::options() const { return impl_->options; }
const TcpAddress& ControlPlane::address() const { return impl_->self; }
std::string ControlPlane::Describe() const { return impl_->description; }

Result<std::shared_ptr<Group>> ControlPlane::OpenGroup(GroupConfig config) {
  const Name name{config.communicator, config.rail};
  const GroupContext context{impl_->io,    impl_->options,  impl_->self,
                             impl_->local, impl_->acceptor, impl_->warned_of_networks};
  auto group = std::make_shared<Group>(context, std::move(config));
  {
    const std::lock_guard lock(impl_->names_mutex);
    if (!impl_->names.insert(name).second) {
      return Fail(ErrorCode::kInvalidArgument,
                  "this transport already has an open endpoint for communicator {}, rail {}", name.first, name.second);
    }
  }
  try {
    asio::post(impl_->io, [impl = impl_.get(), name, group] { impl->Adopt(name, group); });
  } catch (const std::bad_alloc&) {
    const std::lock_guard lock(impl_->names_mutex);
    impl_->names.erase(name);
    throw;
  }
  return group;
}

// Closes a group on the control thread without allocating, because the calling thread provides the memory for Asio's
// queue.
class ControlPlane::Closing {
 public:
  Closing(Impl& impl, Group& group) : impl_(impl), group_(group) {}

  struct Call {
    using allocator_type = HandlerAllocator<void>;
    allocator_type get_allocator() const { return allocator_type(closing->memory_); }
    void operator()() const { closing->Run(); }
    Closing* closing;
  };
  void RunAndWait() {
    asio::post(impl_.io, Call{this});
    std::unique_lock lock(mutex_);
    over_.wait(lock, [this] { return is_over_; });
  }

 private:
  void Run() {
    const Name name{group_.config().communicator, group_.config().rail};
    group_.Close();
    impl_.groups.erase(name);
    IfMemoryAllows([&] { impl_.closed_groups.push_back({name, group_.config().rank, group_.left_behind()}); });
    if (impl_.closed_groups.size() > kRememberedGroups) impl_.closed_groups.pop_front();
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    over_.notify_one();  // under the lock, because the waiting thread destroys this object
  }

  Impl& impl_;
  Group& group_;
  HandlerMemory memory_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
};

void ControlPlane::CloseGroup(const std::shared_ptr<Group>& group) {
  Closing(*impl_, *group).RunAndWait();
  const std::lock_guard lock(impl_->names_mutex);
  impl_->names.erase({group->config().communicator, group->config().rail});
}

void ControlPlane::OpenLane(const std::shared_ptr<Group>& group, Rank peer, std::uint32_t index) {
  group->Expect(peer);
  asio::post(impl_->io, [group, peer, index] { group->OpenLane(peer, index); });
}

void ControlPlane::ShutDown(const std::shared_ptr<Group>& group) {
  asio::post(impl_->io, [group] { group->ShutDown(); });
}

// If a handler ran out of memory, some of its work may be missing, and it is unknown which. For example, it may have
// left a connection unread. So all groups report the failure. Connections that belong to no group yet are closed; their
// clients try again and succeed.
void ControlPlane::Impl::Run() {
  while (true) {
    try {
      io.run();
      return;
    } catch (const std::bad_alloc&) {
      const Error error = OutOfMemoryWhile("serving control connections");
      for (const auto& [name, group] : groups) group->config().observer->OnTransportFailed(error);
      HangUpOnHeld();
      IfMemoryAllows([&] { acceptor.DropPending(); });
    }
  }
}

void ControlPlane::Impl::Adopt(const Name& name, const std::shared_ptr<Group>& group) {
  try {
    groups[name] = group;
  } catch (const std::bad_alloc&) {  // caught here, because Run would report it to all groups except this one
    return group->config().observer->OnTransportFailed(OutOfMemoryWhile("opening a communicator"));
  }
  std::erase_if(closed_groups, [&](const ClosedGroup& closed) { return closed.name == name; });
  const auto waiting = held.extract(name);
  if (waiting.empty()) return;
  held_count -= waiting.mapped().size();
  for (const IncomingPtr& connection : waiting.mapped()) group->OnConnection(connection);
}

// Accepts a control connection if the closed group left a message behind, and sends that message. Refuses all others.
void ControlPlane::Impl::AnswerFor(const ClosedGroup& closed, const IncomingPtr& connection) {
  const Hello& hello = connection->hello();
  const bool gets_message =
      hello.kind == ConnectionKind::kControl && hello.to == closed.rank && !closed.left_behind.empty();
  if (!gets_message) {
    return acceptor.Reject(connection, {Verdict::kRefused, ErrorCode::kClosed,
                                        fmt::format("this process has closed communicator {}, rail {}",
                                                    closed.name.first, closed.name.second)});
  }
  Fd fd = connection->Accept();
  if (!fd) return void(++options.counters->abandoned);
  ++options.counters->established;
  LeftBehindSender::Send(io, std::move(fd), connection->TakeWire(), closed.left_behind, options.handshake_timeout);
}

void ControlPlane::Impl::HangUpOnHeld() {
  for (const auto& [name, connections] : held)
    for (const IncomingPtr& connection : connections) connection->HangUp();
  held.clear();
  held_count = 0;
}

void ControlPlane::Impl::OnConnection(const IncomingPtr& connection) {
  const Name name{connection->hello().communicator, connection->hello().rail};
  if (const auto found = groups.find(name); found != groups.end()) return found->second->OnConnection(connection);
  const auto closed = std::find_if(closed_groups.begin(), closed_groups.end(),
                                   [&](const ClosedGroup& group) { return group.name == name; });
  if (closed != closed_groups.end()) return AnswerFor(*closed, connection);
  if (held_count >= options.max_held_connections) {
    return acceptor.Reject(
        connection,
        {Verdict::kTryAgain, ErrorCode::kResource,
         fmt::format("{} connections wait until their communicators are opened; more are refused", held_count)});
  }
  ++options.counters->held;
  ++held_count;
  held[name].push_back(connection);
  connection->Hold(options.held_timeout, [this, name, connection = connection.get()] {
    ++options.counters->abandoned;
    const auto found = held.find(name);
    if (found == held.end()) return;
    held_count -= std::erase_if(found->second, [&](const IncomingPtr& other) { return other.get() == connection; });
    if (found->second.empty()) held.erase(found);
  });
}

}  // namespace rondo::tcp
