#include "no_system_calls.h"

#include <fmt/format.h>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction() is POSIX's
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <stdexcept>

namespace sidelatch::tools {

namespace {

std::int32_t* made_here = nullptr;

// May make no call itself but exit_group.
void on_forbidden(int /*signal*/, siginfo_t* info, void* /*context*/) {
  *made_here = info->si_syscall;
  ::_exit(1);
}

[[noreturn]] void throw_refused(const char* what) {
  throw std::runtime_error(
      fmt::format("the kernel refuses {}: {}; leave --no-system-calls out", what, std::strerror(errno)));
}

}  // namespace

void forbid_system_calls(std::int32_t& made) {
  made_here = &made;
  struct sigaction action {};
  action.sa_sigaction = on_forbidden;
  action.sa_flags = SA_SIGINFO;
  if (::sigaction(SIGSYS, &action, nullptr) != 0) {
    throw_refused("a handler of SIGSYS");
  }
  std::array<sock_filter, 4> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
  }};
  const sock_fprog program{.len = filter.size(), .filter = filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    throw_refused("a filter of system calls");
  }
}

}  // namespace sidelatch::tools
