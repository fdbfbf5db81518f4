#include "transport/ib/completions.h"

namespace rondo::ib {

CompletionWords Words(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_LOC_LEN_ERR: return {"local length error", "a fault of Rondo or of the driver", false};
    case IBV_WC_LOC_QP_OP_ERR:
      return {"local queue pair operation error", "this machine's port went down, or its GID's address was removed",
              false};
    case IBV_WC_LOC_EEC_OP_ERR: return {"local EE context operation error", "a fault of the driver", false};
    case IBV_WC_LOC_PROT_ERR: return {"local protection error", "registered memory was taken away", false};
    case IBV_WC_WR_FLUSH_ERR: return {"flushed", "the queue pair had failed, or was given up, before", false};
    case IBV_WC_MW_BIND_ERR: return {"memory window bind error", "a fault of Rondo or of the driver", false};
    case IBV_WC_BAD_RESP_ERR:
      return {"bad response", "the other end answered what no queue pair answers; look at its driver", true};
    case IBV_WC_LOC_ACCESS_ERR: return {"local access error", "the other end wrote where it may not", true};
    case IBV_WC_REM_INV_REQ_ERR:
      return {"remote invalid request", "the other end's queue pair expects something else", true};
    case IBV_WC_REM_ACCESS_ERR:
      return {"remote access error", "the other end has taken its memory away: it has ended or is ending", true};
    case IBV_WC_REM_OP_ERR: return {"remote operation error", "the other end's device could not do its part", true};
    case IBV_WC_RETRY_EXC_ERR:
      return {"transport retry counter exceeded",
              "the other end does not acknowledge: it is dead, its link is down, or the fabric loses packets", true};
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return {"receiver-not-ready retry counter exceeded", "the other end's process does not run", true};
    case IBV_WC_LOC_RDD_VIOL_ERR: return {"local RDD violation", "a fault of the driver", false};
    case IBV_WC_REM_INV_RD_REQ_ERR: return {"remote invalid RD request", "a fault of the driver", true};
    case IBV_WC_REM_ABORT_ERR: return {"remote aborted", "the other end's device gave up", true};
    case IBV_WC_INV_EECN_ERR: return {"invalid EE context number", "a fault of the driver", false};
    case IBV_WC_INV_EEC_STATE_ERR: return {"invalid EE context state", "a fault of the driver", false};
    case IBV_WC_FATAL_ERR: return {"fatal error", "the device has failed or is gone: see the kernel's log", false};
    case IBV_WC_RESP_TIMEOUT_ERR: return {"response timeout", "the other end does not answer", true};
    case IBV_WC_TM_ERR:
    case IBV_WC_TM_RNDV_INCOMPLETE: return {"tag matching error", "a fault of the driver", false};
    case IBV_WC_GENERAL_ERR: return {"general error", "see the kernel's log", false};
    case IBV_WC_SUCCESS: break;
  }
  return {"an unknown status", "a newer driver than this program", false};
}

}  // namespace rondo::ib
