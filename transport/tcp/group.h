// One endpoint as the control thread sees it: its peers, the control connection with each, and the lanes that are being
// made. The owner's side of the same endpoint is endpoint.h; the two share the mailbox.
//
// Who connects: whoever needs a lane first makes the control connection, unless one stands. If both call at once, the
// higher rank's call counts as soon as its hello is out: it tells the lower rank to try again, and the lower rank takes
// the higher's call and drops its own. A hello that is out arrives, or breaks with its connection and is said again, so
// exactly one connection comes of it, and messages wait in the one ControlChannel until it does. Lanes are always
// connected by the higher rank; the lower asks for one over the control connection.
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
  std::shared_ptr<const RankFrame> frame = nullptr;  // for the log
};

// What all groups of a transport share; outlives them.
struct GroupContext {
  asio::io_context& io;
  const TcpOptions& options;
  const TcpAddress& self;
  const std::vector<LocalAddress>& local;
  HandshakeAcceptor& acceptor;
  bool& warned_of_networks;  // the control thread's
  const std::vector<std::string> system_congestion_control = {SystemCongestionControl()};
};

class Group : public std::enable_shared_from_this<Group> {
 public:
  Group(const GroupContext& context, GroupConfig config);

  void OpenLane(Rank peer, std::uint32_t index);
  void OnConnection(const IncomingPtr& connection);
  void ShutDown();
  // Closes everything. Nothing is called afterwards, the observer least of all.
  void Close();

  // ---- any thread ----

  // Makes SendControl to `peer` queue from now on.
  void Expect(Rank peer);
  bool SendControl(Rank peer, const ControlMessage& message);
  // See Endpoint::LeaveBehind, of the time until Close.
  void LeaveBehind(const ControlMessage& message);
  std::string left_behind() const;  // its frame; "": nothing
  std::vector<Rank> ControlPeers() const;
  bool IsConnected(Rank peer) const;
  bool ControlFlushed() const;
  std::string DescribePeer(Rank peer) const;
  LinkEnd LinkTo(Rank peer) const;
  const GroupConfig& config() const { return config_; }
  bool SameHostAs(Rank peer) const;
  bool SplitsLanesTo(Rank peer) const;  // a lane is two sockets
  // Of a connection with `peer`. What came to us has begun with this host's, so that of others gets the system's back.
  const std::vector<std::string>& CongestionControlFor(Rank peer, bool we_called) const;

 private:
  struct LaneInProgress {
    explicit LaneInProgress(asio::io_context& io) : deadline(io) {}
    AwakeTimer deadline;
    std::vector<std::shared_ptr<Connector>> connectors;
    bool begun = false;             // connecting, or asked for
    std::uint8_t streams_due = 1;   // sockets still to come, once one came or was begun
    std::uint8_t streams_seen = 0;  // bit by stream
    bool over = false;              // handed over completely, or failed
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
    std::string address;  // of the control connection's other end
    bool flush_watched = false;
    bool goodbye = false;             // it said so
    std::optional<Error> lane_error;  // why no lane can be made any more
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
  // `way`: how we reached it; null: it reached us.
  void ControlStands(const PeerPtr& peer, Fd fd, Wire wire, const Attempt* way);
  void ReadControl(const PeerPtr& peer);
  void OnControlReadable(const PeerPtr& peer);
  void WatchFlush(Rank rank);
  // False: the peer has ended meanwhile.
  bool OnFrames(const PeerPtr& peer, std::vector<ControlFrame>& frames);
  // The control connection is no more: with a reason where the peer is lost, without where it said goodbye.
  void EndPeer(const PeerPtr& peer, std::optional<Error> lost);
  Error ErrorAbout(Rank peer, ErrorCode code, std::string message, const std::string& address) const;

  std::shared_ptr<LaneInProgress> LaneAt(const PeerPtr& peer, std::uint32_t index);
  void BeginLane(const PeerPtr& peer, std::uint32_t index);
  void OnLaneConnection(const PeerPtr& peer, const IncomingPtr& connection);
  void HandOver(const PeerPtr& peer, std::uint32_t index, std::uint8_t streams, std::uint8_t stream, bool we_called,
                Fd fd, Wire wire);
  // The interface that has a socket's local address; "": none that we know.
  std::string InterfaceOf(int fd) const;
  void FailLane(const PeerPtr& peer, std::uint32_t index, const Error& error);

  const GroupContext context_;
  GroupConfig config_;
  std::vector<std::string> instances_;  // by rank
  bool closed_ = false;
  bool shut_down_ = false;
  std::map<Rank, PeerPtr> peers_;

  mutable std::mutex view_mutex_;  // guards what any thread may look at
  std::map<Rank, std::shared_ptr<ControlChannel>> channels_;
  std::map<Rank, std::string> paths_;     // of control connections that have stood
  std::map<Rank, std::string> attempts_;  // of those that are being made: how it stands with each address
  std::map<Rank, LinkEnd> links_;
  std::string left_behind_;
  std::map<Rank, std::map<std::uint32_t, std::string>> rails_;  // of the lanes on rails behind the first, by rail
};

}  // namespace rondo::tcp
