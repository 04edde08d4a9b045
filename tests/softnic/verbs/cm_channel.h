// An event channel of librdmacm on the software NIC, by the commands that librdmacm writes, and processes that have
// one.
//
//   const Verbs& verbs = Verbs::load();                  // in the parent, so that the processes share a wire
//   const pid_t server = start([&] { CmChannel channel; ... return true; });
//   EXPECT_TRUE(succeeds(server));
//
// A process that does not end within 20 s is killed. Events that are not the expected one end the process.
#pragma once

#include "verbs_library.h"

#include "softnic/cm/rdma_ids.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>

namespace sidelatch::softnic {

inline pid_t start(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr unsigned kMostSeconds = 20;
    ::alarm(kMostSeconds);
    ::_exit(body() ? 0 : 1);
  }
  return child;
}
inline bool succeeds(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Something that one process tells another.
class Mark {
 public:
  Mark() { ok_ = ::pipe(ends_) == 0; }
  void set() const { ok_ = ::write(ends_[1], "!", 1) == 1 && ok_; }
  void wait() const {
    char byte = 0;
    ok_ = ::read(ends_[0], &byte, 1) == 1 && ok_;
  }

 private:
  int ends_[2] = {-1, -1};
  mutable bool ok_ = false;
};

inline sockaddr_in6 address_of(std::uint16_t port, const char* text = "127.0.0.1") {
  sockaddr_in6 address{};
  sockaddr_in in{};
  if (::inet_pton(AF_INET, text, &in.sin_addr) == 1) {
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&address, &in, sizeof in);
  } else {
    ::inet_pton(AF_INET6, text, &address.sin6_addr);
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
  }
  return address;
}

class CmChannel {
 public:
  explicit CmChannel(int flags = O_RDWR | O_CLOEXEC)
      : verbs_(Verbs::load()), descriptor_(verbs_.open("/dev/infiniband/rdma_cm", flags)) {}

  [[nodiscard]] int descriptor() const { return descriptor_; }

  /// -1 and errno if it fails.
  template <class Body>
  int command(std::uint32_t number, Body body, std::size_t response_bytes = 0) const {
    struct {
      rdma_ucm_cmd_hdr header;
      Body body;
    } bytes{.header = {.cmd = number, .in = sizeof body, .out = static_cast<std::uint16_t>(response_bytes)},
            .body = body};
    return verbs_.write(descriptor_, &bytes, sizeof bytes.header + sizeof body) < 0 ? -1 : 0;
  }

  [[nodiscard]] std::uint32_t create(cm::PortSpace space = cm::kTcp, ibv_qp_type type = IBV_QPT_RC) const {
    rdma_ucm_create_id_resp made{};
    require("create", command(RDMA_USER_CM_CMD_CREATE_ID,
                              rdma_ucm_create_id{.uid = 0,
                                                 .response = reinterpret_cast<std::uintptr_t>(&made),
                                                 .ps = static_cast<std::uint16_t>(space),
                                                 .qp_type = static_cast<std::uint8_t>(type),
                                                 .reserved = {}},
                              sizeof made) == 0);
    return made.id;
  }
  int bind(std::uint32_t id, const sockaddr_in6& address) const {
    return command(RDMA_USER_CM_CMD_BIND_IP, rdma_ucm_bind_ip{.response = 0, .addr = address, .id = id});
  }
  template <class Value>
  int set_option(std::uint32_t id, int option, Value value) const {
    return command(RDMA_USER_CM_CMD_SET_OPTION, rdma_ucm_set_option{.optval = reinterpret_cast<std::uintptr_t>(&value),
                                                                    .id = id,
                                                                    .level = RDMA_OPTION_ID,
                                                                    .optname = static_cast<std::uint32_t>(option),
                                                                    .optlen = sizeof value});
  }
  int listen(std::uint32_t id, std::uint32_t backlog = 0) const {
    return command(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{.id = id, .backlog = backlog});
  }
  std::uint32_t listen_at(std::uint16_t port, const char* address = "127.0.0.1") const {
    const std::uint32_t id = create();
    require("bind", bind(id, address_of(port, address)) == 0);
    require("listen", listen(id) == 0);
    return id;
  }
  rdma_ucm_event_resp next() const {
    rdma_ucm_event_resp event{};
    require("an event",
            command(RDMA_USER_CM_CMD_GET_EVENT,
                    rdma_ucm_get_event{.response = reinterpret_cast<std::uintptr_t>(&event)}, sizeof event) == 0);
    return event;
  }
  rdma_ucm_event_resp expect(cm::IdEventKind kind) const {
    const rdma_ucm_event_resp event = next();
    if (event.event != static_cast<std::uint32_t>(kind)) {
      std::fprintf(stderr, "event %u, status %d, instead of %u\n", event.event, static_cast<int>(event.status),
                   static_cast<unsigned>(kind));
      ::_exit(2);
    }
    return event;
  }
  std::uint32_t resolve(const sockaddr_in6& address, cm::PortSpace space = cm::kTcp) const {
    const std::uint32_t id = create(space);
    require("resolve",
            command(RDMA_USER_CM_CMD_RESOLVE_IP,
                    rdma_ucm_resolve_ip{.src_addr = {}, .dst_addr = address, .id = id, .timeout_ms = 5000}) == 0);
    expect(cm::IdEventKind::address_resolved);
    require("route",
            command(RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{.id = id, .timeout_ms = 5000}) == 0);
    expect(cm::IdEventKind::route_resolved);
    return id;
  }
  void request(std::uint32_t id, std::uint32_t queue_pair) const {
    rdma_ucm_connect connect{};
    connect.id = id;
    connect.conn_param.qp_num = queue_pair;
    connect.conn_param.retry_count = 7;
    connect.conn_param.valid = 1;
    require("connect", command(RDMA_USER_CM_CMD_CONNECT, connect) == 0);
  }
  /// Active side.
  std::uint32_t connect(std::uint16_t port, std::uint32_t queue_pair = 0x100, const char* address = "127.0.0.1") const {
    const std::uint32_t id = resolve(address_of(port, address));
    request(id, queue_pair);
    expect(cm::IdEventKind::connect_response);
    require("confirm", accept(id, false) == 0);
    return id;
  }
  int accept(std::uint32_t id, bool with_parameters = true, std::uint32_t queue_pair = 0x200) const {
    rdma_ucm_accept accept{};
    accept.id = id;
    accept.conn_param.qp_num = queue_pair;
    accept.conn_param.valid = with_parameters ? 1 : 0;
    return command(RDMA_USER_CM_CMD_ACCEPT, accept);
  }
  /// Passive side: takes a request and waits until it is established.
  std::uint32_t serve(std::uint32_t queue_pair = 0x200) const {
    const rdma_ucm_event_resp request = expect(cm::IdEventKind::connect_request);
    require("accept", accept(request.id, true, queue_pair) == 0);
    expect(cm::IdEventKind::established);
    return request.id;
  }
  int disconnect(std::uint32_t id) const { return command(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{.id = id}); }

 private:
  static void require(const char* what, bool is_right) {
    if (!is_right) {
      std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
      ::_exit(2);
    }
  }

  const Verbs& verbs_;
  int descriptor_;
};

}  // namespace sidelatch::softnic
