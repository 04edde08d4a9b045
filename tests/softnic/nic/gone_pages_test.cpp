// Copies from and to memory that is gone, and what happens to all other faults. Each program that ends, or changes its
// handlers, is a child.
#include "softnic/nic/gone_pages.h"

#include "softnic/nic/shared_bytes.h"
#include "tests/softnic/nic/mapped_pages.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <thread>
#include <vector>

namespace sidelatch::softnic::nic {
namespace {

using Kind = MappedPages::Kind;

class GonePages : public ::testing::TestWithParam<Kind> {
 protected:
  GonePages() { bear_gone_pages(); }
};

TEST_P(GonePages, LoadsSayWhereTheyCouldNotGoOn) {
  const MappedPages pages(2, GetParam());
  std::vector<std::byte> into(2 * kPageBytes);
  EXPECT_EQ(load_shared(into, pages.data()), nullptr);
  EXPECT_TRUE(std::ranges::equal(into, pages.bytes(0, 2 * kPageBytes)));
  pages.take_away(1);
  for (const std::size_t before : {0UL, 1UL, 4UL, 8UL, 100UL, 4096UL}) {
    for (const std::size_t after : {1UL, 4UL, 8UL, 100UL, 4096UL}) {
      std::ranges::fill(into, std::byte{0});
      EXPECT_EQ(load_shared(std::span(into).first(before + after), pages.data() + kPageBytes - before),
                pages.data() + kPageBytes);
      EXPECT_TRUE(std::ranges::equal(std::span(into).first(before), pages.bytes(kPageBytes - before, before)));
      EXPECT_EQ(load_shared(std::span(into).first(before), pages.data() + kPageBytes - before), nullptr);
    }
  }
}

TEST_P(GonePages, StoresSayWhereTheyCouldNotGoOn) {
  const MappedPages pages(2, GetParam());
  const std::vector<std::byte> from(2 * kPageBytes, std::byte{0xee});
  pages.take_away(1);
  for (const std::size_t before : {0UL, 1UL, 4UL, 8UL, 100UL, 4096UL}) {
    for (const std::size_t after : {1UL, 4UL, 8UL, 100UL, 4096UL}) {
      std::ranges::fill(pages.bytes(0, kPageBytes), std::byte{0});
      EXPECT_EQ(store_shared(pages.data() + kPageBytes - before, std::span(from).first(before + after)),
                pages.data() + kPageBytes);
      EXPECT_EQ(std::ranges::count(pages.bytes(0, kPageBytes), std::byte{0xee}), static_cast<std::ptrdiff_t>(before));
      EXPECT_EQ(store_shared(pages.data() + kPageBytes - before, std::span(from).first(before)), nullptr);
    }
  }
}

TEST_P(GonePages, AtomicsFindNothing) {
  const MappedPages pages(1, GetParam());
  EXPECT_TRUE(fetch_add_shared(pages.data(), 1));
  pages.take_away();
  EXPECT_FALSE(fetch_add_shared(pages.data(), 1));
  EXPECT_FALSE(exchange_shared(pages.data() + 8, 1));
  EXPECT_FALSE(compare_swap_shared(pages.data() + kPageBytes - 8, 1, 2));
}

INSTANTIATE_TEST_SUITE_P(Of, GonePages, ::testing::Values(Kind::anonymous, Kind::file),
                         [](const auto& one) { return one.param == Kind::file ? "AFile" : "Memory"; });

TEST(GonePages, MayBeThereButProtected) {
  bear_gone_pages();
  const MappedPages pages(1);
  pages.protect(PROT_READ);
  std::array<std::byte, 64> bytes{};
  EXPECT_EQ(load_shared(bytes, pages.data()), nullptr);
  EXPECT_EQ(store_shared(pages.data() + 8, bytes), pages.data() + 8);
  EXPECT_FALSE(fetch_add_shared(pages.data() + 16, 1));
}

// ---- All other faults and signals.

constexpr int kFine = 7;  // the exit status of a child that has seen what it should

// The status of a child that calls `run`.
template <class Run>
int status_of_child(Run run) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int signal : {SIGSEGV, SIGBUS}) {
      static_cast<void>(std::signal(signal, SIG_DFL));  // a sanitizer has a handler
    }
    run();
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

bool is_killed_by(int status, int signal) { return WIFSIGNALED(status) && WTERMSIG(status) == signal; }
bool is_fine(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == kFine; }

// What handlers see. A handler can reach nothing else.
volatile std::byte* g_wild = nullptr;  // memory that is not there
const MappedPages* g_pages = nullptr;

[[gnu::noinline]] void touch_wild() { *g_wild = std::byte{1}; }

void install(int signal, void (*handler)(int, siginfo_t*, void*), int flags = 0, int blocked = 0) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  sigemptyset(&action.sa_mask);
  if (blocked != 0) {
    sigaddset(&action.sa_mask, blocked);
  }
  sigaction(signal, &action, nullptr);
}

bool is_blocked(int signal) {
  sigset_t now{};
  ::pthread_sigmask(SIG_BLOCK, nullptr, &now);
  return sigismember(&now, signal) == 1;
}

void exit_if_it_is_the_wild_fault(int signal, siginfo_t* info, void* context) {
  ::_exit(signal == SIGSEGV && info->si_addr == g_wild && context != nullptr ? kFine : 1);
}

void exit_if_masked_as_asked(int /*signal*/, siginfo_t* /*info*/, void* /*context*/) {
  ::_exit(is_blocked(SIGSEGV) && is_blocked(SIGUSR1) && !is_blocked(SIGUSR2) ? kFine : 1);
}

void make_it_writable(int /*signal*/, siginfo_t* /*info*/, void* /*context*/) {
  ::mprotect(g_pages->data(), g_pages->size(), PROT_READ | PROT_WRITE);
}

class OtherFaults : public ::testing::Test {
 protected:
  OtherFaults() {
    pages_.take_away();
    g_wild = pages_.data() + 100;
  }
  // Whether the NIC still survives.
  [[nodiscard]] bool bears() const {
    std::array<std::byte, 8> into{};
    return load_shared(into, pages_.data()) == pages_.data();
  }
  MappedPages pages_{1};
};

TEST_F(OtherFaults, EndAProgramWithoutAHandler) {
  EXPECT_TRUE(is_killed_by(status_of_child([] {
                             bear_gone_pages();
                             touch_wild();
                           }),
                           SIGSEGV));
  EXPECT_TRUE(is_killed_by(status_of_child([] {
                             bear_gone_pages();
                             ::raise(SIGBUS);
                           }),
                           SIGBUS));
}

TEST_F(OtherFaults, ReachThePlainHandlerThatWasThereBefore) {
  EXPECT_TRUE(is_fine(status_of_child([&] {
    static_cast<void>(std::signal(SIGSEGV, [](int signal) { ::_exit(signal == SIGSEGV ? kFine : 1); }));
    bear_gone_pages();
    if (bears()) {
      touch_wild();
    }
  })));
}

TEST_F(OtherFaults, ReachAHandlerWithTheirAddressAndContext) {
  EXPECT_TRUE(is_fine(status_of_child([&] {
    install(SIGSEGV, exit_if_it_is_the_wild_fault);
    bear_gone_pages();
    if (bears()) {
      touch_wild();
    }
  })));
}

TEST_F(OtherFaults, AreHandledUnderTheMaskThatWasAskedFor) {
  EXPECT_TRUE(is_fine(status_of_child([&] {
    install(SIGSEGV, exit_if_masked_as_asked, 0, SIGUSR1);
    bear_gone_pages();
    touch_wild();
  })));
}

TEST_F(OtherFaults, GoOnWhereTheProgramMendsThem) {
  EXPECT_TRUE(is_fine(status_of_child([&] {
    const MappedPages own(1);
    g_pages = &own;
    g_wild = own.data();
    own.protect(PROT_READ);
    install(SIGSEGV, make_it_writable);
    bear_gone_pages();
    touch_wild();
    ::_exit(own.data()[0] == std::byte{1} && !is_blocked(SIGSEGV) && bears() ? kFine : 1);
  })));
}

TEST_F(OtherFaults, AreNotIgnoredButSignalsAre) {
  EXPECT_TRUE(is_killed_by(status_of_child([] {
                             static_cast<void>(std::signal(SIGSEGV, SIG_IGN));
                             bear_gone_pages();
                             ::raise(SIGSEGV);
                             touch_wild();
                             ::_exit(1);
                           }),
                           SIGSEGV));
  EXPECT_TRUE(is_fine(status_of_child([&] {
    static_cast<void>(std::signal(SIGSEGV, SIG_IGN));
    bear_gone_pages();
    ::raise(SIGSEGV);
    ::kill(::getpid(), SIGSEGV);
    ::_exit(bears() ? kFine : 1);
  })));
}

TEST_F(OtherFaults, ReachAHandlerForOneTimeOnce) {
  EXPECT_TRUE(is_killed_by(status_of_child([&] {
                             g_pages = &pages_;
                             install(
                                 SIGSEGV, [](int, siginfo_t*, void*) {}, static_cast<int>(SA_RESETHAND));
                             bear_gone_pages();
                             touch_wild();  // the handler returns, and the fault comes again
                             ::_exit(1);
                           }),
                           SIGSEGV));
}

// The copy is of other memory than the fault: this is a defect of somebody's, and not a page that is gone.
TEST_F(OtherFaults, AreNotTakenForThoseOfACopy) {
  EXPECT_TRUE(is_fine(status_of_child([] {
    install(SIGSEGV, exit_if_it_is_the_wild_fault);
    bear_gone_pages();
    const std::array<std::byte, 8> own{};
    static_cast<void>(touch_pages(own, [] { touch_wild(); }));
  })));
}

// ---- A program that installs a handler later.

struct sigaction g_found;  // NOLINT(misc-use-internal-linkage)

void go_on_to_what_was_found(int signal, siginfo_t* info, void* context) {
  g_found.sa_sigaction(signal, info, context);
}

void put_back_what_was_found(int signal, siginfo_t* /*info*/, void* /*context*/) {
  sigaction(signal, &g_found, nullptr);
}

void install_later(void (*handler)(int, siginfo_t*, void*)) {
  sigaction(SIGSEGV, nullptr, &g_found);
  install(SIGSEGV, handler);
  bear_gone_pages();
}

TEST_F(OtherFaults, ReachAHandlerThatIsInstalledLater) {
  EXPECT_TRUE(is_fine(status_of_child([&] {
    bear_gone_pages();
    install_later(exit_if_it_is_the_wild_fault);
    if (bears()) {
      touch_wild();
    }
  })));
}

TEST_F(OtherFaults, DoNotComeRoundThroughAHandlerThatGoesOn) {
  for (auto* const handler : {go_on_to_what_was_found, put_back_what_was_found}) {
    EXPECT_TRUE(is_fine(status_of_child([&] {
      install(SIGSEGV, exit_if_it_is_the_wild_fault);
      bear_gone_pages();
      install_later(handler);
      if (bears()) {
        touch_wild();
      }
    })));
    EXPECT_TRUE(is_killed_by(status_of_child([&] {
                               bear_gone_pages();
                               install_later(handler);
                               if (bears()) {
                                 touch_wild();
                               }
                             }),
                             SIGSEGV));
  }
}

TEST_F(OtherFaults, AreLeftToAProgramThatInstallsHandlersAgainAndAgain) {
  EXPECT_TRUE(is_fine(status_of_child([&] {
    for (int i = 0; i < 3 * kMostHandlers; ++i) {
      bear_gone_pages();
      install(SIGSEGV, exit_if_it_is_the_wild_fault);
    }
    bear_gone_pages();
    touch_wild();
  })));
}

// A fault would end a thread that blocks its signal, whatever the handler.
TEST_F(OtherFaults, AndThoseOfCopiesDoNotEndAThreadThatBlocksThem) {
  EXPECT_TRUE(is_fine(status_of_child([&] {
    bear_gone_pages();
    sigset_t all{};
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    bool survived = false;
    std::thread([&] { survived = bears() && is_blocked(SIGUSR1); }).join();
    ::_exit(survived ? kFine : 1);
  })));
}

}  // namespace
}  // namespace sidelatch::softnic::nic
