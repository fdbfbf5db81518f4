#include "transport/ib/completions.h"

namespace rondo::ib {

CompletionWords Words(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_LOC_LEN_ERR: return {"local length error", "a bug in Rondo or in the driver", false};
    case IBV_WC_LOC_QP_OP_ERR:
      return {"local queue pair operation error", "this machine's port went down, or its GID's address was removed",
              false};
    case IBV_WC_LOC_EEC_OP_ERR: return {"local EE context operation error", "a bug in the driver", false};
    case IBV_WC_LOC_PROT_ERR: return {"local protection error", "registered memory was unmapped", false};
    case IBV_WC_WR_FLUSH_ERR: return {"flushed", "the queue pair had failed or had been closed", false};
    case IBV_WC_MW_BIND_ERR: return {"memory window bind error", "a bug in Rondo or in the driver", false};
    case IBV_WC_BAD_RESP_ERR: return {"bad response", "the other end sent an invalid response; check its driver", true};
    case IBV_WC_LOC_ACCESS_ERR:
      return {"local access error", "the other end wrote to memory that it must not write to", true};
    case IBV_WC_REM_INV_REQ_ERR:
      return {"remote invalid request", "the other end's queue pair did not expect this request", true};
    case IBV_WC_REM_ACCESS_ERR:
      return {"remote access error", "the other end has unregistered its memory: it has ended or is ending", true};
    case IBV_WC_REM_OP_ERR:
      return {"remote operation error", "the other end's device could not perform the operation", true};
    case IBV_WC_RETRY_EXC_ERR:
      return {"transport retry counter exceeded",
              "the other end does not acknowledge: it is dead, its link is down, or the fabric loses packets", true};
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return {"receiver-not-ready retry counter exceeded", "the other end's process is not running", true};
    case IBV_WC_LOC_RDD_VIOL_ERR: return {"local RDD violation", "a bug in the driver", false};
    case IBV_WC_REM_INV_RD_REQ_ERR: return {"remote invalid RD request", "a bug in the driver", true};
    case IBV_WC_REM_ABORT_ERR: return {"remote aborted", "the other end's device aborted the operation", true};
    case IBV_WC_INV_EECN_ERR: return {"invalid EE context number", "a bug in the driver", false};
    case IBV_WC_INV_EEC_STATE_ERR: return {"invalid EE context state", "a bug in the driver", false};
    case IBV_WC_FATAL_ERR: return {"fatal error", "the device has failed or was removed: see the kernel's log", false};
    case IBV_WC_RESP_TIMEOUT_ERR: return {"response timeout", "the other end does not answer", true};
    case IBV_WC_TM_ERR:
    case IBV_WC_TM_RNDV_INCOMPLETE: return {"tag matching error", "a bug in the driver", false};
    case IBV_WC_GENERAL_ERR: return {"general error", "see the kernel's log", false};
    case IBV_WC_SUCCESS: break;
  }
  return {"an unknown status", "the driver is newer than this program", false};
}

}  // namespace rondo::ib
