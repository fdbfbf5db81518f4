// Makes one connection to a peer that has several addresses. It tries the addresses in order, each a short time after
// the previous one, and does the handshake on the first that connects. If the handshake fails, it continues with the
// other addresses. When all have failed, it starts over, with growing pauses, until the deadline. If no address accepts
// a connection at all, it gives up sooner. The error lists every address tried, and why that address failed.
//
// Thread rule: the control thread.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/wire.h"
#include "transport/tcp/address.h"
#include "transport/tcp/awake_timer.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/handshake_sides.h"
#include "transport/tcp/socket.h"

namespace rondo::tcp {

struct ConnectPlan {
  std::vector<Attempt> attempts;
  Hello hello;
  std::shared_ptr<const JobToken> token;  // null: this process has no token
  std::shared_ptr<const TlsContext> tls;  // null: no encryption
  std::size_t tls_buffer_bytes = kTlsSmallBuffer;
  std::vector<Candidate> sources;  // the local addresses to connect from (SourceFor); empty: any
  std::uint32_t rail = 0;
  int buffer_bytes = 0;
  std::vector<std::string> congestion_control;
  Duration timeout{};            // limits the time until `done` is called
  Duration reach_timeout{};      // limits the time until some address accepts a connection
  Duration handshake_timeout{};  // limits the time from the connection to the first reply
  std::string peer_name;         // "rank 2 (host b)", for errors
  // Called whenever the state of an address changes, until `done` is called. Its argument is a text for messages, with
  // the state of every address.
  std::function<void(std::string)> report = nullptr;
};

struct Connected {
  Fd fd;
  Wire wire;
  Attempt via;
};

class Connector : public std::enable_shared_from_this<Connector> {
 public:
  using Done = std::function<void(Result<Connected>)>;

  Connector(asio::io_context& io, ConnectPlan plan);
  // Calls `done` once, after Start has returned, unless Cancel is called first.
  void Start(Done done);
  void Cancel();
  // Whether a hello was sent and has no reply yet. The peer receives the hello unless the connection breaks.
  bool said_hello() const { return shaking_ != nullptr; }

 private:
  struct Try {
    Try(asio::io_context& io, std::size_t index) : index(index), socket(io) {}
    const std::size_t index;  // into plan_.attempts
    asio::posix::stream_descriptor socket;
    Wire wire;
    std::optional<ClientHandshake> side;  // set when the hello of this attempt was sent
    bool held = false;
  };
  using TryPtr = std::shared_ptr<Try>;

  void BeginRound();
  void TryNext();
  void OnConnected(const TryPtr& attempt);
  void Shake(const TryPtr& attempt);
  bool Send(const TryPtr& attempt, Bytes bytes);
  void ReadReply(const TryPtr& attempt);
  void OnBroken(const TryPtr& attempt, const Error& error);
  void OnReply(const TryPtr& attempt, const Reply& reply);
  void GiveUp(const TryPtr& attempt, std::string why);
  void DropAllOthers();
  void EndRound();
  void OnDeadline();
  Duration ReachTime() const;
  void OnReachTimeout();
  void Report() const;
  std::string WhatWasTried() const;
  std::string WhyRefusedHere() const;  // "": this system refused no attempt
  void Finish(Result<Connected> result);
  void CloseAll();

  asio::io_context& io_;
  const ConnectPlan plan_;
  Done done_;
  AwakeTimer deadline_, reach_timer_, stagger_, reply_timer_, pause_;
  std::size_t next_ = 0;          // the attempt that begins next in this round
  std::vector<TryPtr> running_;   // attempts that are connecting
  std::vector<TryPtr> waiting_;   // attempts that have connected, and wait while another one does its handshake
  TryPtr shaking_;                // the attempt whose hello was sent
  std::vector<std::string> why_;  // by index of the attempt: the reason of its latest failure
  std::vector<int> tries_;        // by index of the attempt: how often it was begun
  std::vector<bool> taken_;  // by index of the attempt: a process accepted the connection and has not refused the hello
  // By index of the attempt: its latest connect was refused, so probably no process listens.
  std::vector<bool> refused_;
  int refused_rounds_ = 0;        // consecutive rounds in which all attempts were refused
  std::optional<Error> refusal_;  // a final refusal by a process that runs Rondo, in this round
  // By index of the attempt: why this system did not allow its latest connect; "": it was allowed.
  std::vector<std::string> refused_here_;
  std::string lacks_;  // the resource that the peer says it lacks; "": none
  Duration next_pause_;
};

}  // namespace rondo::tcp
