// The control thread of a transport and what belongs to it: listeners, the groups (one per endpoint), and the clients
// whose endpoint is not open yet.
//
// Thread rule: any thread. Destroyed by any thread but its own, after its groups were closed.
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
  // `options` as for MakeTcpTransport, without null pointers.
  static Result<std::shared_ptr<ControlPlane>> Start(TcpOptions options);
  ~ControlPlane();

  const TcpOptions& options() const;
  const TcpAddress& address() const;
  std::string Describe() const;

  // kInvalidArgument: the name is in use. Held clients of that name are accepted or refused now. After CloseGroup,
  // later clients of the name get what the group left behind, or are refused, until a group opens with it again.
  Result<std::shared_ptr<Group>> OpenGroup(GroupConfig config);
  // When it returns, the control thread uses the group, its observer and its mailbox no more.
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
