// The control thread of a transport, with its listeners, its groups (one per endpoint), and the clients whose endpoint
// is not open yet.
//
// Thread rule: any thread. Any thread except the control thread may destroy the object, after its groups were closed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "transport/tcp/tcp.h"
#include "transport/transport.h"

namespace rondo::tcp {

class Group;
struct GroupConfig;
struct TcpAddress;

class ControlPlane {
 public:
  // `options`: as for MakeTcpTransport, but `clock` and `counters` must not be null.
  static Result<std::shared_ptr<ControlPlane>> Start(TcpOptions options);
  ~ControlPlane();

  const TcpOptions& options() const;
  const TcpAddress& address() const;
  std::string Describe() const;

  // kInvalidArgument: the name is in use. Clients that already wait for that name are accepted or refused now. After
  // CloseGroup, later clients of the name receive the message that the group left behind, or are refused, until another
  // group opens with the name.
  Result<std::shared_ptr<Group>> OpenGroup(GroupConfig config);
  // After this call the control thread no longer uses the group, its observer and its mailbox.
  void CloseGroup(const std::shared_ptr<Group>& group);

  void OpenLane(const std::shared_ptr<Group>& group, Rank peer, std::uint32_t index);
  void ShutDown(const std::shared_ptr<Group>& group);

 private:
  struct Impl;
  class Closing;
  explicit ControlPlane(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rondo::tcp
