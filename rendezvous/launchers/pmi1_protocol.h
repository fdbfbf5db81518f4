// The wire protocol of PMI-1, client side: makes requests and parses answers, without sockets.
//
// A request is one line and its answer is one line. A line has words "key=value", separated by spaces, with "cmd="
// first:
//
//   cmd=init pmi_version=1 pmi_subversion=1             cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0
//   cmd=get_my_kvsname                                  cmd=my_kvsname kvsname=kvs_1_0
//   cmd=put kvsname=kvs_1_0 key=k value=v               cmd=put_result rc=0 msg=success
//   cmd=barrier_in                                      cmd=barrier_out        (when all processes have sent it)
//   cmd=get kvsname=kvs_1_0 key=k                       cmd=get_result rc=0 msg=success value=v
//   cmd=finalize                                        cmd=finalize_ack       (then the server closes)
//
// A value that was put before a barrier can be read after it. Names, keys and values have no spaces. The sources of
// MPICH are the only specification; Hydra and Slurm both support this protocol.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "rendezvous/launchers/pmi_reply.h"

namespace rondo::pmi1 {

std::string Init();
std::string GetMyKvsName();
// REQUIRES, for all names, keys and values of this file: no space and no line feed.
std::string Put(std::string_view kvs, std::string_view key, std::string_view value);
std::string BarrierIn();
std::string Get(std::string_view kvs, std::string_view key);
std::string Finalize();

// Takes the first complete answer from `unread`; nullopt: it is incomplete. kProtocol: the bytes are not PMI-1.
Result<std::optional<PmiReply>> TakeReply(std::string& unread);

}  // namespace rondo::pmi1
