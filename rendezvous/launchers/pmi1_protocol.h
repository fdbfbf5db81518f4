// The wire protocol of PMI-1, client's side: bytes in, bytes out, no socket.
//
// A request and its answer are one line each, words "key=value" with a space between and "cmd=" first:
//
//   cmd=init pmi_version=1 pmi_subversion=1             cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0
//   cmd=get_my_kvsname                                  cmd=my_kvsname kvsname=kvs_1_0
//   cmd=put kvsname=kvs_1_0 key=k value=v               cmd=put_result rc=0 msg=success
//   cmd=barrier_in                                      cmd=barrier_out        (when all processes have said it)
//   cmd=get kvsname=kvs_1_0 key=k                       cmd=get_result rc=0 msg=success value=v
//   cmd=finalize                                        cmd=finalize_ack       (then the server closes)
//
// What is put before a barrier can be had after it. Names, keys and values have no spaces. There is no specification
// but the sources of MPICH; Hydra and Slurm both serve this.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "rendezvous/launchers/pmi_reply.h"

namespace rondo::pmi1 {

std::string Init();
std::string GetMyKvsName();
// REQUIRES, as of all names, keys and values here: no space, no line feed.
std::string Put(std::string_view kvs, std::string_view key, std::string_view value);
std::string BarrierIn();
std::string Get(std::string_view kvs, std::string_view key);
std::string Finalize();

// Takes the first whole answer out of `unread`; nullopt: it has not all come. kProtocol: these are no bytes of PMI-1.
Result<std::optional<PmiReply>> TakeReply(std::string& unread);

}  // namespace rondo::pmi1
