// Shared by tests of connections: a request whose value or failure is checked, and processes that must not return into
// the tests.
#pragma once

#include <sidelatch/fabric/error.h>
#include <sidelatch/fabric/queue_pair.h>
#include <sidelatch/fabric/verbs/device.h>

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

namespace sidelatch::fabric::verbs {

/// Long enough for an emulated NIC, and few retries, so that a target that is gone is noticed within seconds.
inline constexpr ConnectionOptions kConnections{.timeout = 18, .retry_count = 2};

constexpr ConnectionOptions through(Through way) {
  ConnectionOptions connections = kConnections;
  connections.through = way;
  return connections;
}

inline Task<std::uint64_t> add(QueuePair* qp, RemoteSpan where, std::uint64_t addend) {
  const std::uint64_t old = co_await qp->fetch_add(where, addend);
  co_return old;
}

inline Task<Status> status_of_add(QueuePair* qp, RemoteSpan where) {
  try {
    co_await qp->fetch_add(where, 1);
  } catch (const FabricError& error) {
    co_return error.status();
  }
  throw std::logic_error("the request was executed");
}

template <class Function>
std::string error_of(Function function) {
  try {
    function();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

/// A child process that ends with the result of `work`, or 99 if it throws.
template <class Work>
pid_t fork_child(Work work) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      ::_exit(work());
    } catch (const std::exception& error) {
      fmt::print(stderr, "child: {}\n", error.what());
      ::_exit(99);
    }
  }
  return child;
}

}  // namespace sidelatch::fabric::verbs
