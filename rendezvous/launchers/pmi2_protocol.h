// The wire protocol of PMI-2, client side: makes requests and parses answers, without sockets. Specification: "PMI-2
// Wire Protocol" in MPICH's documentation for developers.
//
// The protocol begins with a line of PMI-1, so that an older server can answer. Every later message consists of its
// length in six characters, then that many bytes. The length is padded with blanks; Slurm puts them on the right, other
// servers on the left. The bytes are a sequence of "key=value;"; a semicolon in a value is doubled:
//
//   cmd=init pmi_version=2 pmi_subversion=0\n           cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n
//   cmd=fullinit;pmijobid=6.0;pmirank=1;threaded=FALSE; cmd=fullinit-response;rc=0;...rank=1;size=2;...
//   cmd=kvs-put;key=k;value=v;                          cmd=kvs-put-response;rc=0;
//   cmd=kvs-fence;                                      cmd=kvs-fence-response;rc=0;  (when all have sent it)
//   cmd=kvs-get;jobid=6.0;srcid=-1;key=k;               cmd=kvs-get-response;rc=0;found=TRUE;value=v;
//   cmd=finalize;                                       cmd=finalize-response;rc=0;   (then the server closes)
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "rendezvous/launchers/pmi_reply.h"

namespace rondo::pmi2 {

std::string Init();
std::string FullInit(std::string_view job, Rank rank);  // takes the values of PMI_JOBID and PMI_RANK
std::string KvsPut(std::string_view key, std::string_view value);
std::string KvsFence();
std::string KvsGet(std::string_view job, std::string_view key);
std::string Finalize();

// Takes the first complete answer from `unread`; nullopt: it is incomplete. kProtocol: the bytes are not PMI-2. The
// answer to Init is a line; use pmi1::TakeReply for it.
Result<std::optional<PmiReply>> TakeReply(std::string& unread);

}  // namespace rondo::pmi2
