#include "transport/ib/device_events.h"

namespace rondo::ib {

EventWords Words(ibv_event_type event) {
  switch (event) {
    case IBV_EVENT_CQ_ERR: return {"completion queue overrun", "a bug in Rondo", false};
    case IBV_EVENT_QP_FATAL: return {"queue pair failed", "see the kernel's log", false};
    case IBV_EVENT_QP_REQ_ERR: return {"invalid request", "the other end's queue pair did not expect a request", false};
    case IBV_EVENT_QP_ACCESS_ERR:
      return {"access error", "the other end wrote to memory that it must not write to", false};
    case IBV_EVENT_COMM_EST: return {"communication established", "", false};
    case IBV_EVENT_SQ_DRAINED: return {"send queue drained", "", false};
    case IBV_EVENT_PATH_MIG: return {"path migrated", "", false};
    case IBV_EVENT_PATH_MIG_ERR: return {"path not migrated", "check the alternate path", false};
    case IBV_EVENT_DEVICE_FATAL:
      return {"device failed or was removed", "see the kernel's log; reload its driver or reset it", false};
    case IBV_EVENT_PORT_ACTIVE: return {"port active", "", true};
    case IBV_EVENT_PORT_ERR:
      return {"port down", "check its cable, its switch, and whether its interface was taken down", true};
    case IBV_EVENT_LID_CHANGE: return {"LID changed", "the subnet manager gave the port another LID", true};
    case IBV_EVENT_PKEY_CHANGE: return {"partition keys changed", "the subnet manager changed them", true};
    case IBV_EVENT_SM_CHANGE:
      return {"subnet manager changed", "another subnet manager has taken over, or it was restarted", true};
    case IBV_EVENT_SRQ_ERR: return {"shared receive queue failed", "see the kernel's log", false};
    case IBV_EVENT_SRQ_LIMIT_REACHED: return {"shared receive queue nearly empty", "", false};
    case IBV_EVENT_QP_LAST_WQE_REACHED: return {"last work request reached", "", false};
    case IBV_EVENT_CLIENT_REREGISTER:
      return {"subnet manager asks for another registration", "the subnet manager was restarted", true};
    case IBV_EVENT_GID_CHANGE: return {"GID table changed", "an address of its interface was added or removed", true};
    case IBV_EVENT_WQ_FATAL: return {"work queue failed", "see the kernel's log", false};
  }
  return {"an unknown event", "the driver is newer than this program", false};
}

}  // namespace rondo::ib
