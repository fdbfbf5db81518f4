#include "transport/upgrade/endpoint.h"

#include <sys/epoll.h>

namespace rondo {

bool AddToPollSet(int poll_set, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  return epoll_ctl(poll_set, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace rondo
