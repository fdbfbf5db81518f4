// One endpoint as the control thread sees it: its peers, the control connection with each, and the lanes that are being
// made. The owner's side of the same endpoint is endpoint.h; both share the mailbox.
//
// Which rank connects: the rank that first needs a lane makes the control connection, unless there is one already. If
// both ranks connect at the same time, the higher rank's connection is kept as soon as its hello was sent. The higher
// rank then replies kTryAgain to the lower rank, which accepts the higher rank's connection and drops its own. A hello
// that was sent either arrives, or its connection breaks and the hello is sent again. So exactly one connection is
// established, and messages wait in the one ControlChannel until then. Lanes are always connected by the higher rank;
// the lower rank asks for a lane over the control connection.
//
// Thread rule: the control thread, except where marked.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "transport/tcp/address.h"
#include "transport/tcp/awake_timer.h"
#include "transport/tcp/connector.h"
#include "transport/tcp/control_channel.h"
#include "transport/tcp/control_frame.h"
#include "transport/tcp/handshake_acceptor.h"
#include "transport/tcp/mailbox.h"
#include "transport/tcp/tcp.h"
#include "transport/transport.h"

namespace rondo::tcp {

struct GroupConfig {
  std::uint64_t communicator = 0;
  std::uint32_t rail = 0;
  Rank rank = 0;
  std::vector<TcpAddress> peers;  // by rank
  PeerObserver* observer = nullptr;
  Duration connect_timeout{};
  std::shared_ptr<Mailbox> mailbox;
  std::shared_ptr<const RankFrame> frame = nullptr;  // how log lines name ranks
};

// The objects that all groups of a transport share. They outlive the groups.
struct GroupContext {
  asio::io_context& io;
  const TcpOptions& options;
  const TcpAddress& self;
  const std::vector<LocalAddress>& local;
  HandshakeAcceptor& acceptor;
  bool& warned_of_networks;  // whether the warning about networks was logged; only the control thread uses it
  const std::vector<std::string> system_congestion_control = {SystemCongestionControl()};
};

class Group : public std::enable_shared_from_this<Group> {
 public:
  Group(const GroupContext& context, GroupConfig config);

  void OpenLane(Rank peer, std::uint32_t index);
  void OnConnection(const IncomingPtr& connection);
  void ShutDown();
  // Closes all connections. No handler runs afterwards, and the observer is not called.
  void Close();

  // ---- any thread ----

  // From now on SendControl queues messages to `peer`.
  void Expect(Rank peer);
  bool SendControl(Rank peer, const ControlMessage& message);
  // Stores the message of Endpoint::LeaveBehind. Close keeps it.
  void LeaveBehind(const ControlMessage& message);
  std::string left_behind() const;  // the message as a frame; "": there is no message
  std::vector<Rank> ControlPeers() const;
  bool IsConnected(Rank peer) const;
  bool ControlFlushed() const;
  std::string DescribePeer(Rank peer) const;
  LinkEnd LinkTo(Rank peer) const;
  const GroupConfig& config() const { return config_; }
  bool SameHostAs(Rank peer) const;
  bool SplitsLanesTo(Rank peer) const;  // whether a lane to that peer consists of two sockets
  // The congestion control algorithms to try for a connection with `peer`. An accepted connection begins with the
  // algorithm for connections within this host. So an accepted connection from another host must change to
  // remote_congestion_control, or to the system's algorithm if that list is empty.
  const std::vector<std::string>& CongestionControlFor(Rank peer, bool we_called) const;

 private:
  struct LaneInProgress {
    explicit LaneInProgress(asio::io_context& io) : deadline(io) {}
    AwakeTimer deadline;
    std::vector<std::shared_ptr<Connector>> connectors;
    bool begun = false;             // this rank connects, or has asked the peer to connect
    std::uint8_t streams_seen = 0;  // bit i: stream i is established
    bool over = false;              // all sockets were passed to the owner, or the lane has failed
  };
  enum class PeerState : std::uint8_t { kIdle, kConnecting, kOpen, kEnded };
  struct Peer {
    Peer(asio::io_context& io, Rank rank) : rank(rank), socket(io) {}
    const Rank rank;
    PeerState state = PeerState::kIdle;
    std::shared_ptr<ControlChannel> channel;
    std::shared_ptr<Connector> connector;
    asio::posix::stream_descriptor socket;
    ControlReader reader;
    std::string address;  // the address of the other end of the control connection
    bool flush_watched = false;
    bool goodbye = false;             // the peer has sent a goodbye
    std::optional<Error> lane_error;  // the reason why no lane can be made any more
    std::map<std::uint32_t, std::shared_ptr<LaneInProgress>> lanes;
  };
  using PeerPtr = std::shared_ptr<Peer>;

  const TcpAddress& AddressOf(Rank peer) const { return config_.peers[static_cast<std::size_t>(peer)]; }
  std::string NameOf(Rank peer) const;
  PeerPtr PeerAt(Rank rank);
  std::shared_ptr<ControlChannel> ChannelTo(Rank rank);
  std::shared_ptr<Connector> MakeConnector(Rank peer, ConnectionKind kind, std::uint32_t index, std::uint8_t streams,
                                           std::uint8_t stream);

  void BeginControl(const PeerPtr& peer);
  void OnControlConnection(const PeerPtr& peer, const IncomingPtr& connection);
  // Called when the control connection is established. `way`: the attempt by which this rank connected; null: the peer
  // connected.
  void ControlStands(const PeerPtr& peer, Fd fd, Wire wire, const Attempt* way);
  void ReadControl(const PeerPtr& peer);
  void OnControlReadable(const PeerPtr& peer);
  void WatchFlush(Rank rank);
  // False: the connection with the peer has ended because of these frames.
  bool OnFrames(const PeerPtr& peer, std::vector<ControlFrame>& frames);
  // Ends the control connection. `lost`: why the peer is lost; empty after a goodbye.
  void EndPeer(const PeerPtr& peer, std::optional<Error> lost);
  Error ErrorAbout(Rank peer, ErrorCode code, std::string message, const std::string& address) const;

  std::shared_ptr<LaneInProgress> LaneAt(const PeerPtr& peer, std::uint32_t index);
  void BeginLane(const PeerPtr& peer, std::uint32_t index);
  void OnLaneConnection(const PeerPtr& peer, const IncomingPtr& connection);
  void HandOver(const PeerPtr& peer, std::uint32_t index, std::uint8_t streams, std::uint8_t stream, bool we_called,
                Fd fd, Wire wire);
  // The interface that has the local address of the socket; "": unknown.
  std::string InterfaceOf(int fd) const;
  void FailLane(const PeerPtr& peer, std::uint32_t index, const Error& error);

  const GroupContext context_;
  GroupConfig config_;
  std::vector<std::string> instances_;  // by rank
  bool closed_ = false;
  bool shut_down_ = false;
  std::map<Rank, PeerPtr> peers_;

  mutable std::mutex view_mutex_;  // guards the fields below, which any thread may read
  std::map<Rank, std::shared_ptr<ControlChannel>> channels_;
  std::map<Rank, std::string> paths_;     // for each rank: the path of its established control connection
  std::map<Rank, std::string> attempts_;  // for each rank: the state of each address of a connection that is being made
  std::map<Rank, LinkEnd> links_;
  std::string left_behind_;
  // For each rank and each further rail: the path of the lane to that rank.
  std::map<Rank, std::map<std::uint32_t, std::string>> rails_;
};

}  // namespace rondo::tcp
